#![doc = include_str!("../README.md")]

mod call;
mod chain;
mod execution;
pub mod record;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use call::{Deadline, Event, Failure, Observer, Outcome, Plugins, SearchPath};
pub use chain::Chain;
pub use execution::{Execution, forward, versions};
pub use record::{OwnRecord, WhenBusy, lock_holders};
pub use run::release::Released;
pub use run::unfinished::{has_unfinished, is_unfinished};
