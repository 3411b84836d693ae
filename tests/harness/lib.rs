//! What the end-to-end tests stand on: folders of their own with the plugins
//! in them, calls of the real executables, network namespaces.

mod elf;
mod node;
mod reference;
mod release;
mod run;
mod sandbox;

pub use elf::segment_types;
pub use node::Node;
pub use reference::{DNSMASQ, REFERENCE_PLUGINS, is_root, missing, reference, skip};
pub use release::{Release, dist, one_inode};
pub use run::{Call, Output, Running, answer_of};
pub use sandbox::{Flavour, Form, PLUGINS, Sandbox, example, repository};
