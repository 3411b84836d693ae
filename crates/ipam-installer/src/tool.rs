//! Runs an executable of the image, for a limited time.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// Longest time. `ipamctl` needs less than a second on a node with 65,000 reservations.
const MOST: Duration = Duration::from_secs(20);

/// Runs a command until it has ended and closed its output, with an empty environment.
///
/// # Errors
///
/// It can't be run, or its process group was killed after [`MOST`].
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let mut run = || -> Result<Output> {
        command.env_clear().stdin(Stdio::null()).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        let (sender, output) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = output.recv_timeout(MOST) else {
            kill_process_group(group, Signal::KILL)?;
            bail!("it did not end within {} s", MOST.as_secs());
        };
        Ok(output?)
    };
    run().with_context(|| command.get_program().display().to_string())
}
