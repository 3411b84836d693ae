//! Calling a delegate that is in this very executable: what would be another
//! process's input and output, handed over in memory.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::Invocation;
use super::finished::{Complaints, Finished};
use crate::entry::respond_until;
use crate::{Plugin, log};

/// Calls the plugin as its `main` would.
pub(super) fn run(plugin: &dyn Plugin, invocation: &Invocation<'_>) -> Finished {
    let environment = |name: &str| match name {
        "CNI_COMMAND" => Some(invocation.command.as_str().into()),
        _ => invocation
            .environment
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| value.clone())
            .or_else(|| env::var_os(name)),
    };
    let (response, stderr) = log::as_delegate(plugin.about().name, || {
        let mut stdin = || Ok(invocation.stdin.to_vec());
        respond_until(plugin, &environment, &mut stdin, invocation.interrupt)
    });
    let mut complaints = Complaints::default();
    complaints.add(&stderr);
    // As the system notes them: `exit(0)` and `exit(1)`.
    let status = if response.success { 0 } else { 1 << 8 };
    Finished {
        ended: None,
        status: ExitStatus::from_raw(status),
        stdout: response.stdout,
        stderr: complaints.into_text(),
    }
}
