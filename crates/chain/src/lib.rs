#![doc = include_str!("../README.md")]

mod add;
mod add_steps;
mod attachment_lock;
mod chain;
mod check;
mod context;
mod del;
mod delegates;
mod dry_run;
mod earlier_add;
mod event;
mod failure;
mod forward;
mod gc;
mod journal;
mod leftover_processes;
mod merge;
mod outcome;
mod output;
mod overtime;
mod plugin_call;
mod plugins;
mod proc;
mod process;
mod process_group;
mod record;
mod record_line;
mod recursion;
mod release;
mod search_path;
mod settings;
mod spawn;
mod steps;
#[cfg(test)]
mod testing;
pub mod tools;
mod version_negotiation;

pub use chain::Chain;
pub use event::{Event, Observer};
pub use forward::forward;
pub use outcome::{Failure, Outcome};
pub use plugin_call::{Execution, terminate_left};
pub use plugins::{Executable, Plugins};
pub use release::{Released, WhenBusy};
pub use search_path::SearchPath;
