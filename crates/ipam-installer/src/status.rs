//! Answers the probe: a socket on which the running installer says whether it is ready. The kubelet asks by
//! the same executable with `--probe`.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch::{Sender, channel};

use crate::path_context::PathContext;
use crate::staged::{create_all, remove};

/// Longest time of a probe. The kubelet waits for five seconds, and shows no reason after that.
const TIME_LIMIT: Duration = Duration::from_secs(4);

/// The status, which a thread tells each probe.
#[derive(Debug)]
pub(crate) struct Status(Sender<String>);

impl Status {
    /// Listens on this socket, which replaces one that an ended installer has left.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn listen(path: &Path) -> Result<Self> {
        path.parent().map_or(Ok(()), create_all).at(path)?;
        remove(path)?;
        let listener = UnixListener::bind(path).at(path)?;
        let (status, text) = channel("not ready: it has just started".to_owned());
        thread::spawn(move || {
            for mut probe in listener.incoming().flatten() {
                let text = text.borrow().clone();
                // A probe that has gone away needs no answer.
                let _ = probe.write_all(text.as_bytes());
            }
        });
        Ok(Self(status))
    }

    /// Sets the status, and logs it if it has changed.
    pub(crate) fn set(&self, text: String) {
        if *self.0.borrow() != text {
            eprintln!("{text}");
            self.0.send_replace(text);
        }
    }
}

/// Asks the running installer; true if it is ready, and its text.
///
/// # Errors
///
/// None is running, or it doesn't answer in time.
pub(crate) fn probe(path: &Path) -> Result<(bool, String)> {
    let ask = || -> Result<(bool, String)> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(TIME_LIMIT))?;
        let mut text = String::new();
        socket.read_to_string(&mut text).context("no answer yet")?;
        Ok((text.starts_with("ready: "), text))
    };
    ask().at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_sees_each_status() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/status");
        let status = Status::listen(&path).unwrap();
        let (is_ready, text) = probe(&path).unwrap();
        assert!(!is_ready && text.starts_with("not ready: "), "{text}");
        status.set("ready: 1.0.0".to_owned());
        assert_eq!(probe(&path).unwrap(), (true, "ready: 1.0.0".to_owned()));
    }
}
