//! The hidden folder in a folder that is installed into: new files are made in it, on the
//! same file system, under a lock.
//!
//! It is root's alone. So a link that somebody plants in the folder around it is never
//! followed, and what a killed installation has left is recognised.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fchmod, flock, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::conflists::LIST;
use crate::owner::OWNER;

/// The name of the hidden folder.
pub(crate) const NAME: &str = ".ipam-installer";

/// Files in it that outlive an installation, whatever the folder around it is for.
const KEPT: [&str; 2] = [OWNER, LIST];

/// The longest that another installation is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time between two attempts at the lock.
const RETRY: Duration = Duration::from_millis(20);

/// The folder, open and locked.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    parent: File,
    path: PathBuf,
    folder: File,
}

impl WorkFolder {
    /// Opens and locks the hidden folder in `parent`, whose path is `path`. What an earlier
    /// installation has left is removed.
    ///
    /// # Errors
    ///
    /// The system's; `PermissionDenied` for a folder that isn't root's alone; `WouldBlock`
    /// if another installation holds the lock.
    pub(crate) fn open(parent: &File, path: &Path) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(folder) = locked(parent)? {
                let it = Self {
                    parent: parent.try_clone()?,
                    path: path.join(NAME),
                    folder,
                };
                it.clear()?;
                return Ok(it);
            }
            if Instant::now() > deadline {
                let text = "another installation is at work in it";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            sleep(RETRY);
        }
    }

    /// The open folder.
    pub(crate) fn file(&self) -> &File {
        &self.folder
    }

    /// The path of a file in it, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a new file, with this mode whatever the umask, down to the disk.
    pub(crate) fn write(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        write_new(&self.folder, name, content, mode)
    }

    /// Removes a file of it, if there is one.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => fs::remove_dir_all(self.path_of(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes all files but those that are kept.
    fn clear(&self) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if ![".", ".."].contains(&&*name) && !KEPT.contains(&&*name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Drop for WorkFolder {
    /// Removes the folder, if nothing is in it. The lock ends with it.
    fn drop(&mut self) {
        // Not empty: something is kept there.
        let _ = unlinkat(&self.parent, NAME, AtFlags::REMOVEDIR);
    }
}

/// Writes a new file in `folder`, with this mode whatever the umask, down to the disk.
pub(crate) fn write_new(folder: &File, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let mut file = File::from(openat(folder, name, flags, mode)?);
    file.write_all(content)?;
    fchmod(&file, mode)?;
    file.sync_all()
}

/// The folder, made if it is missing; `None` if it is locked, or was removed meanwhile.
fn locked(parent: &File) -> io::Result<Option<File>> {
    match mkdirat(parent, NAME, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(parent, NAME, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(refused("it is no folder")),
        other => File::from(other?),
    };
    let metadata = folder.metadata()?;
    let user = geteuid().as_raw();
    if metadata.uid() != user {
        let owner = metadata.uid();
        return Err(refused(&format!(
            "it belongs to user {owner}, not to {user}"
        )));
    }
    // Others could plant files in it; the umask may have removed our own bits.
    fchmod(&folder, Mode::RWXU)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        other => other?,
    }
    let now = match statat(parent, NAME, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    Ok((now.st_ino == metadata.ino()).then_some(folder))
}

fn refused(reason: &str) -> io::Error {
    let text = format!("{NAME}: {reason}");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn open(parent: &Path) -> io::Result<WorkFolder> {
        let folder = File::open(parent)?;
        WorkFolder::open(&folder, parent)
    }

    #[test]
    fn leftovers_go_and_what_is_kept_stays() {
        let parent = tempfile::tempdir().unwrap();
        let work = open(parent.path()).unwrap();
        work.write(OWNER, b"k", 0o600).unwrap();
        work.write("left", b"x", 0o755).unwrap();
        fs::create_dir(work.path_of("folder")).unwrap();
        fs::write(work.path_of("folder/file"), "x").unwrap();
        drop(work);
        let work = open(parent.path()).unwrap();
        assert_eq!(fs::read(work.path_of(OWNER)).unwrap(), b"k");
        assert_eq!(fs::read_dir(parent.path().join(NAME)).unwrap().count(), 1);
        work.remove(OWNER).unwrap();
        drop(work);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        fs::write(victim.path().join("precious"), "x").unwrap();
        symlink(victim.path(), parent.path().join(NAME)).unwrap();
        let error = open(parent.path()).unwrap_err();
        assert!(error.to_string().contains("no folder"), "{error}");
        assert!(victim.path().join("precious").exists());
    }

    #[test]
    fn a_second_one_waits_for_the_first() {
        let parent = tempfile::tempdir().unwrap();
        let work = open(parent.path()).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| open(parent.path()).map(|_| ()));
            sleep(Duration::from_millis(60));
            assert!(!second.is_finished());
            // With the folder itself removed, the second makes a new one.
            drop(work);
            second.join().unwrap().unwrap();
        });
        assert!(!parent.path().join(NAME).exists());
    }
}
