//! Folders and files with state of the plugins and tools: records, logs, Docker networks.
//!
//! Every such file is created here. Its mode doesn't depend on the umask, and symbolic links are
//! not followed. The folder must belong to root or to the process's user, and nobody else may
//! write to it. Files are opened relative to the open folder, so nobody can exchange the folder
//! after the check.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, readlinkat, renameat, statat, symlinkat};
use rustix::io::Errno;

use crate::ownership::must_be_ours;
use crate::{FileId, open_regular, read_whole, remove_file};

/// Mode of a folder, and, but for the right to execute, of its files: only their owner has access.
const PRIVATE: u32 = 0o700;

/// The mode of the log folder: the group may read.
const LOGS: u32 = 0o750;

/// Flags of an open folder.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// An open folder that only root and the process's user can write to.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    folder: File,
    file_mode: Mode,
}

impl StateFolder {
    /// Opens a folder. Creates it and its missing parents with mode 0700.
    ///
    /// # Errors
    ///
    /// An I/O error, and `PermissionDenied` for a folder of another user, or one that
    /// others may write to.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::create_with(path, PRIVATE)
    }

    /// As [`Self::create`], for a folder of logs: the folder has mode 0750, its files 0640.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn create_for_logs(path: &Path) -> io::Result<Self> {
        Self::create_with(path, LOGS)
    }

    fn create_with(path: &Path, mode: u32) -> io::Result<Self> {
        match Self::open_with(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(mode).create(path)?;
                Self::open_with(path, mode)
            }
            other => other,
        }
    }

    /// Opens a folder that exists.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is missing; else as [`Self::create`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, PRIVATE)
    }

    fn open_with(path: &Path, mode: u32) -> io::Result<Self> {
        let folder = File::from(openat(CWD, path, FOLDER, Mode::empty())?);
        must_be_ours(&folder.metadata()?)?;
        Ok(Self {
            path: path.to_owned(),
            folder,
            file_mode: Mode::from_raw_mode(mode & 0o666),
        })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder, which can be locked.
    pub fn file(&self) -> &File {
        &self.folder
    }

    /// The path of a file in the folder, for messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file that exists, with these access flags.
    ///
    /// # Errors
    ///
    /// An I/O error, and `PermissionDenied` for a symbolic link, for anything but a regular file,
    /// for a file of another user, and for a file that others may write to.
    pub fn open_file(&self, name: &str, access: OFlags) -> io::Result<File> {
        Ok(self.open_regular(name, access)?.0)
    }

    fn open_regular(&self, name: &str, access: OFlags) -> io::Result<(File, Metadata)> {
        let flags = access | OFlags::NOFOLLOW;
        let (file, metadata) = open_regular(&self.folder, name, flags, self.file_mode)?;
        must_be_ours(&metadata)?;
        Ok((file, metadata))
    }

    /// Opens a file with these access flags. Creates a missing one.
    ///
    /// # Errors
    ///
    /// As [`Self::open_file`].
    pub fn create_file(&self, name: &str, access: OFlags) -> io::Result<File> {
        self.open_file(name, access | OFlags::CREATE)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// As [`Self::open_file`].
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.read_with_time(name)?.0)
    }

    /// Reads a whole file, with the time of its last change if that is known.
    ///
    /// # Errors
    ///
    /// As [`Self::open_file`].
    pub fn read_with_time(&self, name: &str) -> io::Result<(Vec<u8>, Option<SystemTime>)> {
        let (file, metadata) = self.open_regular(name, OFlags::RDONLY)?;
        let content = read_whole(&file, &metadata, u64::MAX)?;
        Ok((content, metadata.modified().ok()))
    }

    /// Replaces a file's content atomically, or creates the file. A reader sees either the whole
    /// old content or the whole new content.
    ///
    /// A killed process leaves `<name>.tmp`, which the next call replaces. Two callers must not
    /// replace the same file at the same time.
    ///
    /// # Errors
    ///
    /// As [`Self::open_file`]; the old content is kept.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let unfinished = format!("{name}.tmp");
        // The existing file, of any kind, is not from this call.
        self.remove(&unfinished)?;
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = self.open_file(&unfinished, create)?;
        let folder = &self.folder;
        file.write_all(content)
            .and_then(|()| Ok(renameat(folder, &unfinished, folder, name)?))
            .inspect_err(|_| {
                let _ = self.remove(&unfinished);
            })
    }

    /// The identity of a file, or of a link.
    ///
    /// # Errors
    ///
    /// An I/O error of `stat`.
    pub fn id_of(&self, name: &str) -> io::Result<FileId> {
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    /// Removes a file. A missing one is no error.
    ///
    /// # Errors
    ///
    /// An I/O error of `unlink`.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove_file(&self.folder, name)
    }

    /// Lets a symbolic link of this name lead to a file of the folder. It is replaced atomically,
    /// but only a link to a file whose name begins with `<name>.`: anything else isn't ours. Several
    /// callers may do it at the same time.
    ///
    /// # Errors
    ///
    /// An I/O error, and `AlreadyExists` if something else has the name.
    pub fn link(&self, name: &str, target: &str) -> io::Result<()> {
        let folder = &self.folder;
        match readlinkat(folder, name, Vec::new()) {
            Ok(old) if old.as_bytes() == target.as_bytes() => return Ok(()),
            Ok(old) if old.as_bytes().starts_with(format!("{name}.").as_bytes()) => {}
            Err(Errno::NOENT) => {}
            Ok(_) | Err(Errno::INVAL) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => return Err(error.into()),
        }
        let unfinished = format!(".{name}.tmp");
        self.remove(&unfinished)?;
        match symlinkat(target, folder, &unfinished)
            .and_then(|()| renameat(folder, &unfinished, folder, name))
        {
            // Another caller makes the same link.
            Err(Errno::EXIST | Errno::NOENT) => Ok(()),
            linked => Ok(linked?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use rustix::process::geteuid;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
        result.map(|_| ()).unwrap_err().kind()
    }

    #[test]
    fn only_the_owner_may_use_folders_and_files_whatever_the_umask() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let before = rustix::process::umask(Mode::empty());
        let folder = StateFolder::create(&path).unwrap();
        folder.create_file("made", OFlags::WRONLY).unwrap();
        folder.replace("replaced", b"x").unwrap();
        let logs = StateFolder::create_for_logs(&root.path().join("logs")).unwrap();
        logs.create_file("log", OFlags::WRONLY).unwrap();
        rustix::process::umask(before);
        assert_eq!(mode(&root.path().join("logs")), 0o750);
        assert_eq!(mode(&root.path().join("logs/log")), 0o640);
        assert_eq!(mode(&root.path().join("a")), 0o700);
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("made")), 0o600);
        assert_eq!(mode(&path.join("replaced")), 0o600);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o1777, 0o720] {
            fs::set_permissions(root.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                kind(StateFolder::create(root.path())),
                io::ErrorKind::PermissionDenied,
                "{mode:o}"
            );
        }
    }

    #[test]
    fn what_another_user_owns_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        // Another test of this process may have changed the umask.
        let mode = Permissions::from_mode(0o700);
        let root = tempfile::Builder::new()
            .permissions(mode)
            .tempdir()
            .unwrap();
        let folder = StateFolder::create(root.path()).unwrap();
        folder.replace("file", b"x").unwrap();
        chown(root.path().join("file"), Some(65534), None).unwrap();
        assert_eq!(kind(folder.read("file")), io::ErrorKind::PermissionDenied);
        chown(root.path(), Some(65534), None).unwrap();
        let error = StateFolder::open(root.path()).unwrap_err();
        assert!(error.to_string().contains("65534"), "{error}");
    }

    #[test]
    fn a_link_leads_to_the_newest_file_and_replaces_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::create(&root.path().join("logs")).unwrap();
        for target in ["a.log.1", "a.log.2", "a.log.2"] {
            folder.link("a.log", target).unwrap();
            let read = fs::read_link(folder.path_of("a.log")).unwrap();
            assert_eq!(read.to_str(), Some(target));
        }
        fs::write(folder.path_of("b.log"), "precious").unwrap();
        fs::create_dir(folder.path_of("c.log")).unwrap();
        symlink("/etc/passwd", folder.path_of("d.log")).unwrap();
        for name in ["b.log", "c.log", "d.log"] {
            let linked = folder.link(name, &format!("{name}.1"));
            assert_eq!(kind(linked), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert_eq!(fs::read_dir(root.path().join("logs")).unwrap().count(), 4);
    }

    #[test]
    fn no_link_is_followed_and_no_pipe_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::create(&root.path().join("state")).unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, folder.path_of("link")).unwrap();
        symlink(&victim, folder.path_of("file.tmp")).unwrap();
        let pipe = folder.path_of("pipe");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &pipe, fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for name in ["link", "pipe"] {
            assert_eq!(
                kind(folder.read(name)),
                io::ErrorKind::PermissionDenied,
                "{name}"
            );
            assert!(folder.create_file(name, OFlags::WRONLY).is_err(), "{name}");
        }
        folder.replace("file", b"new").unwrap();
        folder.replace("link", b"new").unwrap();
        assert_eq!(folder.read("file").unwrap(), b"new");
        assert_eq!(folder.read("link").unwrap(), b"new");
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_file_is_replaced_by_a_whole_one_or_stays() {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::create(root.path()).unwrap();
        folder.replace("a", b"first, and longer").unwrap();
        folder.replace("a", b"second").unwrap();
        assert_eq!(folder.read("a").unwrap(), b"second");
        fs::create_dir(folder.path_of("b")).unwrap();
        assert!(folder.replace("b", b"x").is_err());
        assert!(folder.path_of("b").is_dir());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        folder.remove("a").unwrap();
        folder.remove("a").unwrap();
    }
}
