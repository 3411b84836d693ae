//! A plugin's `main`: reads the process's environment and stdin, handles signals, and
//! prints the answer.

use std::env;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::panic;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use cni::{Cancellation, Command, Environment, Plugin, TRACEPARENT, TraceContext};
use state_files::wait_writable;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};

use crate::respond::{Caller, respond_to};
use crate::signals::Signals;
use crate::{command_line, log, write_to_stderr};

/// Runs a plugin as this process: the whole `main` of its executable.
///
/// If the result of an ADD can't be printed because the caller is gone, the plugin's DEL
/// undoes the ADD. So nothing stays reserved that nobody knows of.
pub fn main(plugin: &dyn Plugin) -> ExitCode {
    let about = plugin.about();
    if let Some(text) = command_line::answer(about) {
        let _ = io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let variables: Environment = env::vars_os().collect();
    if variables.get("CNI_COMMAND").is_none() {
        // A person has started it, or a runtime with a defect, which gets a CNI error, too.
        write_to_stderr(command_line::usage(about).as_bytes());
        let is_cni = |name: &str| name.starts_with("CNI_");
        if !variables
            .iter()
            .any(|(name, _)| name.to_str().is_some_and(is_cni))
        {
            return ExitCode::SUCCESS;
        }
    }
    log::init(about.name);
    log_panics();

    // A trace that is made here must be the same in the rollback below.
    let trace = TraceContext::of_call(&variables);
    let environment = variables.with(TRACEPARENT, trace.to_variable());
    let signals = LazySignals::default();
    let print = |bytes: &[u8]| print(bytes, &signals);
    // One read is enough for most configurations.
    let mut stdin = Vec::with_capacity(8 << 10);
    let caller = Caller {
        cancellation: Some(&signals),
        deliver: Some(&print),
        owns_process: plugin.executes_others() && becomes_subreaper(),
    };
    let mut read = || {
        read_bounded(io::stdin().lock(), &mut stdin)?;
        // Until here, a signal ends the process: nothing has been done.
        signals.install_for(plugin, &environment);
        Ok(stdin.clone())
    };
    let output = respond_to(plugin, &environment, &mut read, &caller);
    let printed = print(&output.stdout);
    if let (Err(error), true) = (&printed, output.success) {
        undo(plugin, error, environment, &stdin, caller.owns_process);
    }
    if output.success && printed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The largest configuration, in bytes. A valid attachment has about 150, so this is room for
/// a hundred thousand in a GC; a plugin needs several times as much memory.
const MOST_STDIN: usize = 16 << 20;

/// Reads all of stdin.
///
/// # Errors
///
/// An I/O error; `FileTooLarge` for more than [`MOST_STDIN`], which is then not read.
fn read_bounded(stdin: impl Read, into: &mut Vec<u8>) -> io::Result<()> {
    stdin.take(MOST_STDIN as u64 + 1).read_to_end(into)?;
    if into.len() > MOST_STDIN {
        let why = format!("the configuration is larger than {MOST_STDIN} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(())
}

/// Handlers of signals that are installed when the call has been read.
#[derive(Default)]
struct LazySignals(OnceLock<Signals>);

impl LazySignals {
    /// Installs them for a command that the plugin wants cancelled.
    fn install_for(&self, plugin: &dyn Plugin, environment: &Environment) {
        let command: Option<Command> = environment.text("CNI_COMMAND").parse().ok();
        if !command.is_some_and(|command| plugin.handles_signals(command)) {
            return;
        }
        match Signals::install() {
            Ok(signals) => drop(self.0.set(signals)),
            Err(error) => {
                tracing::warn!(%error, "SIGTERM and SIGINT will end the call at once");
            }
        }
    }
}

impl Cancellation for LazySignals {
    fn is_cancelled(&self) -> bool {
        self.0.get().is_some_and(Cancellation::is_cancelled)
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        let signals = self.0.get();
        signals.map_or(Err(io::ErrorKind::Unsupported.into()), Cancellation::fd)
    }
}

/// A pipe that is ready takes as many bytes without blocking.
const PIPE_BUF: usize = 4096;

/// Interval in which a signal is noticed while the caller doesn't read.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Prints to stdout. A caller that doesn't read is waited for, until a signal comes.
fn print(bytes: &[u8], signals: &LazySignals) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for chunk in bytes.chunks(PIPE_BUF) {
        while !wait_writable(&stdout, SIGNAL_INTERVAL)? {
            if signals.is_cancelled() {
                return Err(io::Error::other(
                    "a signal came before the caller has read it",
                ));
            }
        }
        stdout.write_all(chunk)?;
        stdout.flush()?;
    }
    Ok(())
}

/// Undoes an ADD whose result nobody has received.
fn undo(
    plugin: &dyn Plugin,
    error: &io::Error,
    environment: Environment,
    stdin: &[u8],
    owns_process: bool,
) {
    if environment.get("CNI_COMMAND") != Some(Command::Add.as_str().as_ref()) {
        return;
    }
    tracing::error!(%error, "the result could not be delivered; undoing the ADD");
    let del = environment.with("CNI_COMMAND", Command::Del.as_str());
    let caller = Caller {
        owns_process,
        ..Caller::default()
    };
    respond_to(plugin, &del, &mut || Ok(stdin.to_vec()), &caller);
}

/// Makes this process the subreaper of its descendants, prctl(2): the kernel makes it the
/// parent of every process that its children leave behind. Returns whether it is, and had no
/// child before: a shell that executes a plugin in its place leaves it its children.
fn becomes_subreaper() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let has_none = waitid(WaitId::All, options).err() == Some(Errno::CHILD);
    has_none && set_child_subreaper(Some(getpid())).is_ok()
}

/// Sends a panic's message to the log.
fn log_panics() {
    panic::set_hook(Box::new(|info| {
        tracing::error!(at = info.location().map(tracing::field::display), "panic");
    }));
}
