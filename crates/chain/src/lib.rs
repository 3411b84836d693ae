#![doc = include_str!("../README.md")]

mod call;
mod chain;
pub mod record;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use call::descendants::Left;
pub use call::event::{Event, Observer};
pub use call::execution::Execution;
pub use call::outcome::{Failure, Outcome};
pub use call::plugin_versions::versions;
pub use call::plugins::{Executable, Plugins};
pub use call::search_path::SearchPath;
pub use chain::Chain;
pub use record::lock_holders::{LockHolder, lock_holders};
pub use record::own_record::OwnRecord;
pub use run::forward::forward;
pub use run::tool_release::{Released, WhenBusy};
