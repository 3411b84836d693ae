//! Plain files of one directory of reservations: makes, reads, lists and removes
//! them. Nothing here locks or remembers.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, futimens, openat, statat,
    unlinkat,
};
use rustix::io::Errno;
use state_files::FileId;

use crate::reservation::{Reservation, address_of_file};

/// Age from which a torn file is given out again. A younger one may be a file that
/// host-local is writing just now.
pub const TORN_AGE: Duration = Duration::from_secs(10);

/// The largest file that is read. All of ours are far smaller.
const MOST_BYTES: u64 = 256 << 20;

/// Length of a file that is taken for whole without being read, in bytes. Container IDs
/// have 64 and more.
const LONG_ENOUGH: i64 = 64;

/// State of an address that has a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Reserved.
    Reserved(Reservation),
    /// Empty or cut off, and younger than [`TORN_AGE`] (or, by a clock that was set
    /// back, from the future): somebody may be writing it.
    BeingWritten,
    /// Empty or cut off by a crash: free.
    Torn,
    /// The file can't be read: reserved, to an unknown holder.
    Unreadable,
}

/// A reservation file.
#[derive(Clone, Debug)]
pub(crate) struct ReadFile {
    pub(crate) state: State,
    /// Times and inode of the file; `None` if it can't be read.
    pub(crate) metadata: Option<fs::Metadata>,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    folder: File,
}

impl Directory {
    /// Opens the directory at this path, if it exists.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, path, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Self {
                path: path.to_owned(),
                folder: folder.into(),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory at this path. `None` if it is certain that none is there, so that
    /// nothing is reserved in it.
    pub(crate) fn find(path: &Path) -> io::Result<Option<Self>> {
        Self::open(path).or_else(|error| {
            if is_no_directory(&error) {
                Ok(None)
            } else {
                Err(error)
            }
        })
    }

    /// Opens the directory at this path. A missing one is made, with the mode that
    /// host-local gives it.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        loop {
            if let Some(it) = Self::open(path)? {
                return Ok(it);
            }
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o755).create(path)?;
        }
    }

    /// Its path, as it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
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
    pub(crate) fn metadata(&self) -> io::Result<fs::Metadata> {
        self.folder.metadata()
    }

    /// Device and inode.
    pub(crate) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::from(&self.metadata()?))
    }

    /// Reads a whole file, with its metadata.
    pub(crate) fn read_file(&self, name: &str) -> io::Result<(Vec<u8>, fs::Metadata)> {
        // With NONBLOCK, opening a pipe doesn't wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.folder, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if metadata.len() > MOST_BYTES {
            return Err(io::Error::other("it is larger than 256 MiB"));
        }
        let mut content = vec![0; usize::try_from(metadata.len()).unwrap_or_default() + 1];
        let read = file.read(&mut content)?;
        let whole = read < content.len();
        content.truncate(read);
        if !whole {
            // The file has grown since its length was read.
            file.read_to_end(&mut content)?;
        }
        Ok((content, metadata))
    }

    /// Reads the reservation of an address; `None` if it has no file.
    pub(crate) fn read(&self, ip: IpAddr) -> io::Result<Option<State>> {
        match self.read_file(&ip.to_string()) {
            Ok((content, metadata)) => Ok(Some(state(&content, &metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The state of the file of this name; `None` if it can't be read.
    pub(crate) fn state_of(&self, name: &str) -> Option<State> {
        let (content, metadata) = self.read_file(name).ok()?;
        Some(state(&content, &metadata))
    }

    /// Reads all reservations, in no order.
    pub(crate) fn list(&self, mut each: impl FnMut(IpAddr, ReadFile)) -> io::Result<()> {
        self.addresses(|ip| {
            if let Some(file) = self.read_listed(ip) {
                each(ip, file);
            }
        })
    }

    /// The addresses that have a file, in no order.
    pub(crate) fn addresses(&self, mut each: impl FnMut(IpAddr)) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            if let Some(ip) = name.and_then(address_of_file) {
                each(ip);
            }
        }
        Ok(())
    }

    /// Reads the reservation of an address that had a file; `None` if the file was removed
    /// meanwhile.
    pub(crate) fn read_listed(&self, ip: IpAddr) -> Option<ReadFile> {
        let name = ip.to_string();
        match self.read_file(&name) {
            Ok((content, metadata)) => Some(ReadFile {
                state: state(&content, &metadata),
                metadata: Some(metadata),
            }),
            // A dangling link would still exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_missing(&name) => None,
            Err(error) => {
                let path = self.path.join(&name);
                tracing::warn!(path = %path.display(), %error, "unreadable reservation");
                Some(ReadFile {
                    state: State::Unreadable,
                    metadata: None,
                })
            }
        }
    }

    /// True if the address of this file can't be given to another. A file that is long
    /// enough for a holder is not opened.
    pub(crate) fn is_taken(&self, ip: IpAddr) -> bool {
        let name = ip.to_string();
        let stat = statat(&self.folder, &name, AtFlags::empty());
        match stat {
            Ok(stat) if stat.st_size >= LONG_ENOUGH => true,
            _ => self
                .read_listed(ip)
                .is_some_and(|it| it.state != State::Torn),
        }
    }

    /// Removes a file. A missing one is no error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // A read-only file system says so before it looks for the file.
            Err(Errno::ROFS) if self.is_missing(name) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_missing(&self, name: &str) -> bool {
        let stat = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        matches!(stat, Err(Errno::NOENT))
    }
}

/// True if an error of opening a directory is an answer: no directory is at the path. It is
/// missing; it, or a part of the path, is another file; the name is longer than a name can
/// be; or links lead in a circle.
pub(crate) fn is_no_directory(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP)
    )
}

/// Sets the modification time of a file or a directory, since 1970.
pub(crate) fn set_modified(file: impl AsFd, seconds: i64, nanoseconds: u32) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        },
    };
    Ok(futimens(file, &times)?)
}

fn state(content: &[u8], metadata: &fs::Metadata) -> State {
    if let Some(reservation) = Reservation::parse(content) {
        return State::Reserved(reservation);
    }
    // The modification time is the time at which the file was made or emptied.
    let age = metadata
        .modified()
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if age.is_some_and(|age| age >= TORN_AGE) {
        State::Torn
    } else {
        State::BeingWritten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_folders_that_are_named_like_reservations_are_unreadable() {
        use rustix::fs::{FileType, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("10.0.0.2");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::create_dir(folder.path().join("10.0.0.3")).unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("10.0.0.4")).unwrap();
        fs::write(folder.path().join("10.0.0.5"), "c1\r\neth0").unwrap();
        fs::write(folder.path().join("notes"), "c1\r\neth0").unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        let mut all = Vec::new();
        let mut add = |ip: IpAddr, file: ReadFile| all.push((ip.to_string(), file.state));
        directory.list(&mut add).unwrap();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let unreadable = |name: &str| (name.to_owned(), State::Unreadable);
        assert_eq!(
            all[..3],
            ["10.0.0.2", "10.0.0.3", "10.0.0.4"].map(unreadable)
        );
        assert!(matches!(&all[3..], [(_, State::Reserved(it))] if it.container_id == "c1"));
    }
}
