//! Keeps running after an installation: every second, checks it, repairs changes, and writes the
//! status for the probe.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::node::Node;

/// Interval between two checks.
const LOOK: Duration = Duration::from_secs(1);

/// Longest interval while there is a problem. The interval doubles up to this one.
const LONGEST: Duration = Duration::from_secs(10);

/// SIGTERM and SIGINT, which no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// Installs the handlers. The first process of a container ignores signals without a handler.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn install() -> Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self(reader))
    }

    /// Waits for a signal, for at most `time` if it is set; true if a signal came.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn came_within(&self, time: Option<Duration>) -> Result<bool> {
        self.0.set_read_timeout(time)?;
        loop {
            match (&self.0).read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                read => return Ok(read? > 0),
            }
        }
    }
}

/// Repairs the installation until SIGTERM or SIGINT.
///
/// # Errors
///
/// An I/O error of the wait for signals.
pub(crate) fn keep(node: &mut Node, signals: &Signals) -> Result<()> {
    let mut last = None;
    let mut pause = LOOK;
    loop {
        let status = node.look();
        pause = match status.is_ready() {
            true => LOOK,
            false => (2 * pause).min(LONGEST),
        };
        if last.as_ref() != Some(&status) {
            eprintln!("{}", status.text());
            match status.write(&node.arguments.status_file) {
                Ok(()) => last = Some(status),
                Err(error) => eprintln!("the status for the probe cannot be written: {error:#}"),
            }
        }
        if signals.came_within(Some(pause))? {
            return Ok(());
        }
    }
}
