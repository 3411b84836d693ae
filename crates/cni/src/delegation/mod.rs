//! Calling other plugins: find one in `CNI_PATH`, run it, take its answer.
//!
//! Specification, section 4, "Plugin Delegation".

mod answer;
mod direct;
mod find;
mod finished;
mod group;
mod process;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use answer::{Answer, Failure, Printed};
pub use find::{DelegateName, InvalidDelegateName, SearchPath};

use crate::log::OneLine;
use crate::{Command, Interrupt, Plugin};

/// How a delegate is called.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// What it is asked for.
    pub command: Command,
    /// The network configuration.
    pub stdin: &'a [u8],
    /// Variables that it gets instead of, or besides, this process's own.
    pub environment: &'a [(&'static str, OsString)],
    /// How long it may take, if there is a limit.
    pub timeout: Option<Duration>,
    /// Tells when it shall be stopped.
    pub interrupt: Option<&'a dyn Interrupt>,
}

/// What a delegate's name has led to.
#[derive(Clone)]
pub struct Executable<'a> {
    path: PathBuf,
    /// What it is, if it is the executable that this process runs.
    plugin: Option<&'a dyn Plugin>,
}

impl<'a> Executable<'a> {
    /// The file at this path, which is to be executed.
    pub fn file(path: PathBuf) -> Self {
        Self { path, plugin: None }
    }

    /// The plugin that this process's own executable is by this path, which need
    /// not be executed once more: it is called directly.
    pub fn this_one(path: PathBuf, plugin: &'a dyn Plugin) -> Self {
        let plugin = Some(plugin);
        Self { path, plugin }
    }

    /// Whether it is called directly.
    pub fn is_this_one(&self) -> bool {
        self.plugin.is_some()
    }
}

/// Runs the delegate, waits for its end, and returns what it said.
///
/// It has the environment of this process, but for `CNI_COMMAND` and what the
/// invocation says. What it writes to stderr goes to ours while it runs. It leads
/// a process group, all of which is ended when its time is over; but where it ends
/// by itself, a process that it leaves behind isn't waited for.
///
/// One that is called directly differs in this: there is no process, so nothing but
/// the interrupt ends it before its time.
pub fn delegate(
    name: &DelegateName,
    executable: &Executable<'_>,
    invocation: &Invocation<'_>,
) -> Answer {
    let command = invocation.command;
    let started = Instant::now();
    tracing::debug!(
        delegate = %name,
        %command,
        executable = %executable.path.display(),
        input = %OneLine(invocation.stdin),
        "calling the delegate"
    );
    let finished = match executable.plugin {
        Some(plugin) => Ok(direct::run(plugin, invocation)),
        None => process::run(&executable.path, invocation),
    };
    match finished {
        Err(error) => Answer::Failed(Failure::NotStarted {
            executable: executable.path.clone(),
            error,
        }),
        Ok(finished) => {
            tracing::debug!(
                delegate = %name,
                %command,
                status = %finished.status,
                milliseconds = format_args!("{:.3}", started.elapsed().as_secs_f64() * 1e3),
                output = %OneLine(&finished.stdout),
                "the delegate has ended"
            );
            answer::interpret(finished)
        }
    }
}
