//! A call of a delegate: the plugin is found, then called in this process or executed; its
//! output becomes an outcome.

mod deadline;
mod event;
mod installed_delegates;
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

pub(crate) use installed_delegates::{DelegateCall, InstalledDelegates};
pub(crate) use outcome::{Kind, MOST_OUTPUT, Reason, Terminated};
pub(crate) use output::{ProcessOutput, StderrTail};
pub(crate) use plugins::{InstalledPlugin, refuse_delegates_call};
pub(crate) use process::ProcessRun;
pub(crate) use process_group::ProcessGroup;
pub(crate) use version_negotiation::{CommonVersions, supported_versions};
