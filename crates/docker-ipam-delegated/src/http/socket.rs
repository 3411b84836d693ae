//! The socket, one that systemd hands over or one that the daemon makes; and who may call.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;
use rustix::process::geteuid;

use crate::http::refusal::Refusal;

/// A listening socket. If the daemon made its file, the file is removed on drop.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    /// The file that the daemon made.
    made: Option<PathBuf>,
}

impl Socket {
    /// The socket that systemd hands over, or else one at this path.
    ///
    /// # Errors
    ///
    /// Another daemon listens there; an I/O error.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if let Some(listener) = ListenFd::from_env().take_unix_listener(0)? {
            let made = None;
            return Ok(Self { listener, made });
        }
        make(path).with_context(|| format!("{}", path.display()))
    }

    /// Removes the file, if the daemon made it; false if it didn't.
    pub(crate) fn remove_file(&mut self) -> bool {
        let Some(path) = self.made.take() else {
            return false;
        };
        let _ = fs::remove_file(path);
        true
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.remove_file();
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
        // The socket of a killed daemon, or a file of another kind.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            if !fs::symlink_metadata(path)?.file_type().is_socket() {
                bail!("it exists, and is not a socket");
            }
            fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    let socket = Socket {
        listener: UnixListener::bind(path)?,
        made: Some(path.to_owned()),
    };
    // Who connects before this is refused by the user.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// The reason why a peer may not call: it is neither root nor the daemon's own user.
pub(crate) fn refused_peer(peer: io::Result<u32>) -> Option<Refusal> {
    let why = match peer {
        Ok(user) if user == 0 || user == geteuid().as_raw() => return None,
        Ok(user) => format!("user {user} may not call: only root may"),
        Err(error) => format!("the caller's user is not known: {error}"),
    };
    Some(Refusal::new(403, why))
}
