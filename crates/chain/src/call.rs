//! A call of one delegate: [`Delegates`] finds the plugin, calls it in this process or executes its
//! file ([`ProcessRun`]), tells the observer, and makes an [`Outcome`] of what comes back.
//! `CommonVersions` repeats the call for a delegate that is too old for the network's version.
//!
//! Nothing here knows a chain or a record: what a process inherits is an [`InheritedLock`].

mod deadline;
mod delegate_call;
mod delegates;
mod event;
mod outcome;
mod output;
mod plugins;
mod process;
mod process_group;
mod search_path;
mod version_negotiation;

pub use deadline::Deadline;
pub use event::{Event, Observer};
pub use outcome::{Failure, Outcome};
pub use plugins::Plugins;
pub use search_path::SearchPath;

pub(crate) use delegate_call::DelegateCall;
pub(crate) use delegates::{Delegates, TimeLimits};
pub(crate) use outcome::Kind;
pub(crate) use process::{InheritedLock, ProcessRun};
pub(crate) use version_negotiation::supported_versions;
