//! The socket: one that systemd hands over, or one that the daemon makes.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;
use rustix::fs::Mode;
use rustix::process::umask;

/// A socket that listens. If it was made here, its file goes with this.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    made: Option<Made>,
}

/// The file of a socket that was made here.
struct Made {
    path: PathBuf,
    /// Its device and inode, which stay its own as long as the listener is open.
    id: (u64, u64),
}

impl Socket {
    /// The socket that systemd hands over, or else one at this path.
    ///
    /// # Errors
    ///
    /// Another daemon listens there; an I/O error.
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
        // Somebody may have put another one in its place.
        if let Some(Made { path, id }) = &self.made
            && id_of(path).is_ok_and(|now| now == *id)
        {
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
        // What a daemon that was killed has left, or no socket at all.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            if !fs::symlink_metadata(path)?.file_type().is_socket() {
                bail!("it is there, and is no socket");
            }
            fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    // From the first moment on, only its owner can connect.
    let before = umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener?;
    let made = Made {
        path: path.to_owned(),
        id: id_of(path)?,
    };
    Ok(Socket {
        listener,
        made: Some(made),
    })
}

fn id_of(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "kept").unwrap();
        symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let error = make(path).err().unwrap().to_string();
            assert_eq!(error, "it is there, and is no socket");
        }
        assert_eq!(fs::read_to_string(&link).unwrap(), "kept");
    }

    #[test]
    fn the_file_goes_at_the_end_unless_it_is_another_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(make(&path).unwrap());
        assert!(!path.exists());
        let first = make(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = make(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
