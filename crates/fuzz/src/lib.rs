//! Library of the fuzz targets: generators of nearly valid inputs, calls of the plugins
//! within this process, and sandboxes for their files.
//!
//! Random bytes never get past a JSON parser, so an input is a valid document or
//! file, a *seed*, and a few changes to it. The engine chooses the changes: at
//! random in the ordinary tests, by coverage in a long run. `docs/fuzzing.md` says
//! how both are run.

mod call;
mod document;
mod edit;
mod effort;
mod fragment;
mod sandbox;
mod text;
mod watch;
mod word;

pub use call::{Outcome, Variables, call};
pub use document::Document;
pub use edit::Edit;
pub use effort::TEST_TIME;
pub use fragment::Fragment;
pub use sandbox::{Sandbox, Snapshot};
pub use text::{Bytes, Text};
pub use watch::watched;
pub use word::Word;
