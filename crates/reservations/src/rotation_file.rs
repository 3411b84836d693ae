//! The address that a pool gave last: its rotation continues behind it. If the file is lost, the
//! rotation starts from the beginning.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use state_files::{open_regular, read_whole};

use crate::directory::{Directory, MOST_BYTES};

/// Mode of the file, as host-local makes it.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// The start of the files' names.
pub(crate) const PREFIX: &str = "last_reserved_ip.";

/// The open file of a pool's rotation.
#[derive(Debug)]
pub struct RotationFile {
    path: PathBuf,
    /// `None` if it can't be opened.
    file: Option<File>,
    content: Vec<u8>,
}

impl RotationFile {
    /// Opens the file of this rotation, and makes it if it is missing. A failure is only logged:
    /// the rotation starts again.
    pub(crate) fn open(directory: &Directory, rotation: &str) -> Self {
        let name = format!("{PREFIX}{rotation}");
        let path = directory.path.join(&name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
        let opened = open_regular(directory.folder(), &name, flags, MODE);
        let read = opened.and_then(|(file, metadata)| {
            let content = read_whole(&file, &metadata, MOST_BYTES)?;
            Ok((Some(file), content))
        });
        let (file, content) = read.unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "the rotation starts again");
            (None, Vec::new())
        });
        Self {
            path,
            file,
            content,
        }
    }

    /// The address that was given last; `None` also if the file has no address.
    pub fn last(&self) -> Option<IpAddr> {
        let text = str::from_utf8(&self.content).ok()?;
        text.trim().parse().ok()
    }

    /// Notes the address that is given now. A failure is only logged: the reservation is valid.
    pub fn set_last(&self, ip: IpAddr) {
        let Some(file) = &self.file else { return };
        let text = ip.to_string();
        let write = || {
            file.write_all_at(text.as_bytes(), 0)?;
            if text.len() < self.content.len() {
                file.set_len(text.len() as u64)?;
            }
            Ok::<_, io::Error>(())
        };
        if let Err(error) = write() {
            let path = self.path.display();
            tracing::warn!(%path, %error, "can't note the address given last");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_address_is_all_that_the_file_has() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        for ip in ["10.0.0.9", "10.0.0.10", "10.0.0.2", "fd00::1"] {
            let ip = ip.parse().unwrap();
            RotationFile::open(&directory, "blue").set_last(ip);
            assert_eq!(RotationFile::open(&directory, "blue").last(), Some(ip));
            let text = fs::read_to_string(folder.path().join("last_reserved_ip.blue"));
            assert_eq!(text.unwrap(), ip.to_string());
        }
    }

    #[test]
    fn without_a_usable_file_the_rotation_starts_again() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        fs::write(folder.path().join("last_reserved_ip.0"), "\0\0\0").unwrap();
        assert_eq!(RotationFile::open(&directory, "0").last(), None);
        let other = folder.path().join("other");
        fs::write(&other, "10.0.0.5").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("last_reserved_ip.1")).unwrap();
        let linked = RotationFile::open(&directory, "1");
        linked.set_last("10.0.0.6".parse().unwrap());
        assert_eq!(linked.last(), None);
        assert_eq!(fs::read_to_string(&other).unwrap(), "10.0.0.5");
    }
}
