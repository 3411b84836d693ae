//! A plugin's `main`: reads the process's environment and stdin, handles signals, and
//! prints the answer.

use std::env;
use std::io::{self, Read, Write};
use std::panic;
use std::process::ExitCode;

use cni::{Cancellation, Command, Environment, Plugin, TRACEPARENT, TraceContext};

use crate::respond::{respond, respond_and_deliver};
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
        // A person, or a runtime with a defect: that one gets a CNI error, too.
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
    let signals = signals(plugin, &environment);
    // One read is enough for most configurations.
    let mut stdin = Vec::with_capacity(8 << 10);
    let output = respond_and_deliver(
        plugin,
        &environment,
        &mut || {
            io::stdin().lock().read_to_end(&mut stdin)?;
            Ok(stdin.clone())
        },
        signals.as_ref().map(|it| it as &dyn Cancellation),
        Some(&print),
    );
    let printed = print(&output.stdout);
    if let (Err(error), true) = (&printed, output.success) {
        undo(plugin, error, environment, &stdin);
    }
    if output.success && printed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Takes the signals over, for a command that the plugin wants cancelled by them.
fn signals(plugin: &dyn Plugin, environment: &Environment) -> Option<Signals> {
    let command: Command = environment.get("CNI_COMMAND")?.to_str()?.parse().ok()?;
    if !plugin.handles_signals(command) {
        return None;
    }
    Signals::install()
        .inspect_err(|error| tracing::warn!(%error, "SIGTERM and SIGINT will end the call at once"))
        .ok()
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Undoes an ADD whose result nobody has received.
fn undo(plugin: &dyn Plugin, error: &io::Error, environment: Environment, stdin: &[u8]) {
    if environment.get("CNI_COMMAND") != Some(Command::Add.as_str().as_ref()) {
        return;
    }
    tracing::error!(%error, "the result could not be delivered; undoing the ADD");
    let del = environment.with("CNI_COMMAND", Command::Del.as_str());
    respond(plugin, &del, &mut || Ok(stdin.to_vec()), None);
}

/// Sends a panic's message to the log.
fn log_panics() {
    panic::set_hook(Box::new(|info| {
        tracing::error!(at = info.location().map(tracing::field::display), "panic");
    }));
}
