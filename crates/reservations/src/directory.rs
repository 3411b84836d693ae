//! Plain files of one directory of reservations: opens, reads, lists and removes
//! them, without a lock.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use state_files::{open_if_there, open_regular, read_whole, remove_file};

use crate::reservation::{Reservation, address_of_file};
use crate::state::State;

/// The largest file that is read, in bytes. All of ours are far smaller.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// A reservation file.
#[derive(Clone, Debug)]
pub(crate) struct ReadFile {
    pub(crate) state: State,
    /// Times and inode of the file; `None` if it can't be read.
    pub(crate) metadata: Option<Metadata>,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    folder: File,
}

impl Directory {
    /// Opens the directory at this path; `None` if it is proven that nothing is there.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || Ok(openat(CWD, path, flags, Mode::empty())?);
        let folder = open_if_there(path, open)?;
        Ok(folder.map(|folder| Self {
            path: path.to_owned(),
            folder: folder.into(),
        }))
    }

    /// Opens the directory at this path; `None` if it is proven that there is none, so that nothing
    /// is reserved in it.
    pub(crate) fn find(path: &Path) -> io::Result<Option<Self>> {
        match Self::open(path) {
            // No directory can have such a name.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Ok(None),
            other => other,
        }
    }

    /// Opens the directory at this path. A missing one is made, with the mode that
    /// host-local gives it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        loop {
            if let Some(directory) = Self::open(path)? {
                return Ok(directory);
            }
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o755).create(path)?;
        }
    }

    /// The path of a reservation.
    pub(crate) fn path_of(&self, ip: IpAddr) -> PathBuf {
        self.path.join(ip.to_string())
    }

    /// The open directory itself.
    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Device and inode, and all times.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.folder.metadata()
    }

    /// True if the file of this name is a regular one without content.
    pub(crate) fn is_empty_file(&self, name: &str) -> bool {
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size == 0
        })
    }

    /// The addresses that have a file, in no order.
    pub(crate) fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let mut ips = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            ips.extend(name.and_then(address_of_file));
        }
        Ok(ips)
    }

    /// Reads the reservation of an address; `None` if it has no file. A file that can't be read is
    /// logged.
    pub(crate) fn read(&self, ip: IpAddr) -> Option<ReadFile> {
        let name = ip.to_string();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        let opened = open_regular(&self.folder, &name, flags, Mode::empty());
        let read = opened
            .and_then(|(file, metadata)| Ok((read_whole(&file, &metadata, MOST_BYTES)?, metadata)));
        match read {
            Ok((content, metadata)) => Some(ReadFile {
                state: Reservation::parse(&content).map_or(State::Torn, State::Reserved),
                metadata: Some(metadata),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let path = self.path.join(&name);
                tracing::warn!(path = %path.display(), %error, "unreadable reservation");
                let state = match self.type_of(&name) {
                    Ok(FileType::RegularFile) | Err(_) => State::Unreadable,
                    Ok(_) => State::NotAFile,
                };
                Some(ReadFile {
                    state,
                    metadata: None,
                })
            }
        }
    }

    /// The state of an address; `None` if it has no file.
    pub(crate) fn state_of(&self, ip: IpAddr) -> Option<State> {
        self.read(ip).map(|file| file.state)
    }

    /// The states of those of these addresses that have a file.
    pub(crate) fn states_of(&self, ips: &[IpAddr]) -> Vec<(IpAddr, State)> {
        let state_of = |ip: &IpAddr| Some((*ip, self.state_of(*ip)?));
        ips.iter().filter_map(state_of).collect()
    }

    /// Removes a file. A missing one is no error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        remove_file(&self.folder, name)
    }

    /// What this name is, without following a link.
    fn type_of(&self, name: &str) -> rustix::io::Result<FileType> {
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }
}

/// True if the path leads to a file that is no directory.
pub(crate) fn is_other_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_folders_and_links_that_are_named_like_reservations_are_nobodys() {
        use rustix::fs::mknodat;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("10.0.0.2");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::create_dir(folder.path().join("10.0.0.3")).unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("10.0.0.4")).unwrap();
        fs::write(folder.path().join("10.0.0.5"), "c1\r\neth0").unwrap();
        fs::write(folder.path().join("notes"), "c1\r\neth0").unwrap();
        std::os::unix::fs::symlink("notes", folder.path().join("10.0.0.6")).unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        let ips = directory.addresses().unwrap();
        let mut all: Vec<(String, State)> = directory
            .states_of(&ips)
            .into_iter()
            .map(|(ip, state)| (ip.to_string(), state))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let states: Vec<String> = all
            .iter()
            .map(|(ip, state)| match state {
                State::Reserved(reservation) => format!("{ip} {reservation}"),
                state => format!("{ip} {state:?}"),
            })
            .collect();
        assert_eq!(
            states,
            [
                "10.0.0.2 NotAFile",
                "10.0.0.3 NotAFile",
                "10.0.0.4 NotAFile",
                "10.0.0.5 c1 eth0",
                "10.0.0.6 NotAFile",
            ]
        );
    }

    #[test]
    fn a_reservation_that_was_removed_since_it_was_listed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        assert!(directory.read("10.0.0.2".parse().unwrap()).is_none());
    }

    #[test]
    fn an_error_that_does_not_prove_that_there_is_no_directory_is_returned() {
        assert!(Directory::find(Path::new("/nowhere")).unwrap().is_none());
        // A disk that isn't mounted.
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("networks");
        std::os::unix::fs::symlink("/nowhere/networks", &link).unwrap();
        for path in [link.join("net"), link] {
            assert!(Directory::find(&path).is_err() && Directory::create(&path).is_err());
        }
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Directory::find(&file).is_err() && Directory::find(&file.join("net")).is_err());
        // No path: it has a zero.
        assert!(Directory::find(Path::new("/no\0where")).is_err());
    }
}
