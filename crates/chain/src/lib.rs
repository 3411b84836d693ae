#![doc = include_str!("../README.md")]

mod call;
mod chain;
pub mod record;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use call::{Deadline, Event, Failure, Observer, Outcome, Plugins, SearchPath};
pub use chain::Chain;
pub use chain::release::Released;
pub use record::{OwnRecord, WhenBusy, has_unfinished, is_unfinished, lock_holders};
pub use run::{Execution, forward, versions};
