//! Measures the peak memory of a call.

use std::fs;
use std::io::{PipeWriter, Read, Write, pipe};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::pipe::fcntl_setpipe_size;

use super::process::Plugin;

/// A process counts as waiting if its memory hasn't grown for this time.
const STILL: Duration = Duration::from_millis(100);

/// After this time, the peak so far is used.
const PATIENCE: Duration = Duration::from_secs(5);

/// The peak of the process's resident memory in an ADD, in KiB.
///
/// The kernel's figure for ended processes includes the memory of their parent at the fork. So the
/// process gets a full pipe as stdout, and its figure is read while it waits to print its result,
/// after all of its work.
pub(crate) fn peak(plugin: &Plugin, container: &str) -> Result<u64> {
    let (mut answer, mut stdout) = pipe()?;
    fill(&mut stdout)?;
    let mut process = plugin.command("ADD", container)?;
    let mut child = process.stdout(stdout).spawn()?;
    // This closes our end of the pipe.
    drop(process);
    let status = format!("/proc/{}/status", child.id());
    let (mut last, started) = (0, Instant::now());
    let mut since = started;
    while since.elapsed() < STILL && started.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5));
        let now = high_water(&fs::read_to_string(&status)?).unwrap_or(last);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    let mut all = Vec::new();
    answer.read_to_end(&mut all)?;
    child.wait()?;
    Ok(last)
}

fn fill(pipe: &mut PipeWriter) -> Result<()> {
    let size = fcntl_setpipe_size(&mut *pipe, 4096)?;
    pipe.write_all(&vec![b' '; size]).context("filling a pipe")
}

/// `VmHWM`, in KiB.
fn high_water(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_in_kib() {
        assert_eq!(high_water("Name:\tx\nVmHWM:\t    1234 kB\n"), Some(1234));
        assert_eq!(high_water("Name:\tx\n"), None);
    }
}
