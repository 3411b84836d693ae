#![doc = include_str!("../README.md")]

mod call;
mod call_id;
mod chain;
mod leftover_processes;
mod overtime;
pub mod record;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use call::event::{Event, Observer};
pub use call::execution::{Execution, forward, versions};
pub use call::outcome::{Failure, Outcome};
pub use call::plugins::{Executable, Plugins};
pub use call::search_path::SearchPath;
pub use chain::Chain;
pub use leftover_processes::Left;
pub use record::lock_holders::lock_holders;
pub use record::own_record::OwnRecord;
pub use run::tool_release::{Released, WhenBusy};
