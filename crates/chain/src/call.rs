//! A call of a delegate: the plugin is found, then called in this process or executed; its
//! output becomes an outcome.

pub(crate) mod delegate_call;
mod descendants;
pub(crate) mod event;
pub(crate) mod execution;
pub(crate) mod installed_delegates;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod plugins;
mod process;
mod process_group;
pub(crate) mod search_path;
mod spawn;
pub(crate) mod version_negotiation;
