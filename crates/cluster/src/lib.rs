#![doc = include_str!("../README.md")]

pub mod address;
pub mod block;
pub mod client;
mod configured;
pub mod contents;
mod engine;
mod engine_error;
mod engine_settings;
pub mod forget;
pub mod import;
mod key;
mod node;
pub mod plugin;
mod pool;
pub mod restore;
mod take_over;
mod time_limit;
mod value;

pub use configured::ConfiguredCluster;
pub use engine::{Change, Condition, Engine, Found, Moment, Outcome, Read, Stored};
pub use engine_error::{EngineError, Kind};
pub use engine_settings::{DEFAULT_TIMEOUT, EngineSettings};
pub use key::{Group, HeldKey, Holding, Key};
pub use node::identity::{Identity, take_name};
pub use node::machine::{Machine, Registration};
pub use node::{Node, configured_name, node_name};
pub use pool::defined_pools::DefinedPools;
pub use pool::definition::Definition;
pub use take_over::take_over;
pub use time_limit::TimeLimit;
pub use value::{BlockOwner, Holder};

/// Code 11 with this reason.
fn try_again(reason: impl Into<String>) -> cni::Error {
    cni::Error::new(cni::code::TRY_AGAIN_LATER, reason)
}
