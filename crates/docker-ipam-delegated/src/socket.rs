//! The socket: systemd's, or one of our own.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;
use rustix::fs::Mode;
use rustix::process::umask;

/// A socket that listens. If it was made here, its file goes with this.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    made: Option<PathBuf>,
}

impl Socket {
    /// The socket that systemd hands over, or else one at this path.
    ///
    /// # Errors
    ///
    /// Another daemon listens there; the system's.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if let Some(listener) = ListenFd::from_env().take_unix_listener(0)? {
            return Ok(Self {
                listener,
                made: None,
            });
        }
        make(path).with_context(|| format!("{}", path.display()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            let _ = fs::remove_file(path);
        }
    }
}

fn make(path: &Path) -> Result<Socket> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)?;
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!("another daemon listens there"),
        // What a daemon that was killed has left.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
        Err(_) => {}
    }
    // From the first moment on, only its owner can connect.
    let before = umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    Ok(Socket {
        listener: listener?,
        made: Some(path.to_owned()),
    })
}
