//! Limits the time of an executable of the image, and of a request, so that no look hangs.

use std::future::Future;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Longest time. `ipamctl` needs less than a second on a node with 65,000 reservations.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Runs a command until it has ended and closed its output, with an empty environment. Returns what
/// it has printed.
///
/// # Errors
///
/// It can't be run, was killed after [`TIME_LIMIT`], or has failed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let program = command.as_std().get_program().display().to_string();
    let work = async { Ok(command.output().await?) };
    let output: Output = within(TIME_LIMIT, "it did not end", work).context(program.clone())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr) + &*said;
        // `kubectl get events` shows the first line of a message.
        let why: Vec<&str> = why.lines().map(str::trim).collect();
        bail!("{program}: {} ({})", why.join(" "), output.status);
    }
    Ok(said)
}

/// Does work to its end, or drops it. `late` is the beginning of the error's text.
///
/// # Errors
///
/// Those of the work; it isn't done after this time.
pub(crate) fn within<T>(
    time: Duration,
    late: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { timeout(time, work).await });
    done.with_context(|| format!("{late} within {} seconds", time.as_secs()))?
}
