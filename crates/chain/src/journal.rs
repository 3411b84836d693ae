//! File of an attachment's record, which is also the attachment's lock:
//! `<stateDir>/<network>/<containerID>:<ifname>.json`.
//!
//! Lines are appended, each in one write, and DEL removes the file. ADD, DEL and GC hold
//! `flock(2)` on it while they work, and so do the delegates that they execute.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::{Attachment, Error, NetworkName, code};
use rustix::fs::{FlockOperation, OFlags, flock};
use state_files::{FileId, StateFolder};

use crate::descendants::Left;
use crate::lock_holders::{LockHolder, lock_holders};
use crate::lock_wait;
use crate::record::Record;
use crate::record_line::{Line, whole_lines};

/// Access to the file of a record: it is read, and lines are appended.
const ACCESS: OFlags = OFlags::RDWR.union(OFlags::APPEND);

/// Number of attempts to make a file in a folder that other calls remove with its last
/// file.
const MOST_RACES: usize = 100;

/// The records of one network.
pub(crate) struct Journals {
    folder: PathBuf,
    network: NetworkName,
}

/// The open file of an attachment's record. [`Journal::lock`] locks it.
pub(crate) struct Journal {
    folder: StateFolder,
    name: String,
    file: File,
    is_locked: bool,
    /// True if no write has failed.
    is_whole: Cell<bool>,
    /// The processes that have inherited the lock and have not ended.
    left: RefCell<Left>,
}

/// A journal that was to be opened.
pub(crate) enum Opened {
    /// It is open.
    Journal(Journal),
    /// There is none.
    Missing,
    /// There is none that may be used, and none can be made: this call isn't the owner of
    /// the folder or of the file, or the disk takes no more file.
    Unusable(io::Error),
}

impl Journals {
    pub(crate) fn new(state_dir: &Path, network: &NetworkName) -> Self {
        Self {
            folder: state_dir.join(network.as_str()),
            network: network.clone(),
        }
    }

    /// The file of an attachment's record.
    pub(crate) fn file(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(name(attachment))
    }

    /// The file of an attachment's record, unless it is known to be missing.
    pub(crate) fn existing(&self, attachment: &Attachment) -> Option<PathBuf> {
        let file = self.file(attachment);
        match fs::symlink_metadata(&file) {
            Err(error) if is_never_there(&error) => None,
            _ => Some(file),
        }
    }

    /// True if what bears the name of an attachment's record is known to be none: a folder, a
    /// pipe, a link.
    pub(crate) fn is_no_record(&self, attachment: &Attachment) -> bool {
        fs::symlink_metadata(self.file(attachment)).is_ok_and(|metadata| !metadata.is_file())
    }

    /// Opens a journal without waiting for its lock. A missing one is made.
    ///
    /// # Errors
    ///
    /// The system's: it is not known whether there is one.
    pub(crate) fn create(&self, attachment: &Attachment) -> io::Result<Opened> {
        let name = name(attachment);
        for _ in 0..MOST_RACES {
            let opened = StateFolder::create(&self.folder).and_then(|folder| {
                let file = folder.create_file(&name, ACCESS)?;
                Ok(Journal::new(folder, name.clone(), file))
            });
            match opened {
                // A call that removes the last record removes the folder, too.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return opened_or_unusable(other),
            }
        }
        Err(io::Error::other("its folder is removed again and again"))
    }

    /// Opens a journal without waiting for its lock.
    ///
    /// # Errors
    ///
    /// The system's: it is not known whether there is one.
    pub(crate) fn open(&self, attachment: &Attachment) -> io::Result<Opened> {
        let name = name(attachment);
        let opened = StateFolder::open(&self.folder).and_then(|folder| {
            let file = folder.open_file(&name, ACCESS)?;
            Ok(Journal::new(folder, name, file))
        });
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Opened::Missing),
            other => opened_or_unusable(other),
        }
    }

    /// The attachments that have a record, in order.
    ///
    /// # Errors
    ///
    /// The system's: it is not known which have one.
    pub(crate) fn attachments(&self) -> io::Result<Vec<Attachment>> {
        let mut attachments = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if is_never_there(&error) => return Ok(attachments),
            other => other?,
        };
        for entry in entries {
            let name = entry?.file_name();
            attachments.extend(name.to_str().and_then(attachment_of));
        }
        attachments.sort_unstable();
        Ok(attachments)
    }

    /// The error of records that can't be listed now.
    pub(crate) fn unknown(&self, error: &io::Error) -> Error {
        let folder = self.folder.display();
        Error::new(code::TRY_AGAIN_LATER, format!("records {folder}: {error}"))
    }

    /// Reads the record in a journal; `None` if nothing has been written to it, `Err` with
    /// the reason if it is damaged.
    ///
    /// # Errors
    ///
    /// The system's: the content is not known.
    pub(crate) fn read(
        &self,
        journal: &Journal,
        attachment: &Attachment,
    ) -> io::Result<Option<Result<Record, String>>> {
        let content = journal.read()?;
        let parse = || Record::parse(&content, &self.network, attachment);
        Ok((!content.is_empty()).then(parse))
    }
}

/// True if an error proves that there is no file of this path: a part of it is missing, is no
/// folder, or is too long for the file system.
fn is_never_there(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// Tells an error that leaves it unknown whether there is a journal from one that doesn't.
fn opened_or_unusable(opened: io::Result<Journal>) -> io::Result<Opened> {
    use io::ErrorKind::{
        IsADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    match opened {
        Ok(journal) => Ok(Opened::Journal(journal)),
        Err(error) if is_never_there(&error) => Ok(Opened::Unusable(error)),
        Err(error) => match error.kind() {
            IsADirectory | PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull => {
                Ok(Opened::Unusable(error))
            }
            _ => Err(error),
        },
    }
}

impl Journal {
    fn new(folder: StateFolder, name: String, file: File) -> Self {
        Self {
            folder,
            name,
            file,
            is_locked: false,
            is_whole: Cell::new(true),
            left: RefCell::default(),
        }
    }

    /// Locks the record; returns `false` if somebody else still holds it after this time.
    ///
    /// # Errors
    ///
    /// The system's; `NotFound` if the file was removed meanwhile, and must be opened
    /// again.
    pub(crate) fn lock(&mut self, at_most: Duration) -> io::Result<bool> {
        if !lock_wait::lock(&self.file, at_most)? {
            return Ok(false);
        }
        self.must_be_named()?;
        self.is_locked = true;
        Ok(true)
    }

    /// Checks that the name still leads to this file, and not to another or to none.
    ///
    /// # Errors
    ///
    /// The system's; `NotFound` if it doesn't.
    pub(crate) fn must_be_named(&self) -> io::Result<()> {
        if FileId::from(&self.file.metadata()?) != self.folder.id_of(&self.name)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    /// The processes that hold the lock, as far as they can be seen.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn holders(&self) -> io::Result<Vec<LockHolder>> {
        lock_holders(&self.file)
    }

    /// Takes note of processes that have inherited the lock and have not ended.
    pub(crate) fn note_left(&self, left: Left) {
        let noted = self.left.take().and(left);
        self.left.replace(noted);
    }

    /// True if a process that has inherited the lock may still be at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.left.borrow().is_at_work()
    }

    /// The locked file, for processes that inherit the lock.
    pub(crate) fn lock_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_locked.then(|| self.file.as_fd())
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let length = self.file.metadata()?.len();
        let mut content = vec![0; usize::try_from(length).unwrap_or_default()];
        // Lines that the lock's holder appends meanwhile are not read.
        self.file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Empties the record.
    pub(crate) fn clear(&self) {
        if let Err(error) = self.file.set_len(0) {
            self.give_up(&error);
        }
    }

    /// Removes a last line that was cut off, so that further lines can follow.
    pub(crate) fn mend(&self) {
        let mended = self.read().and_then(|content| {
            let whole = whole_lines(&content).len();
            if whole == content.len() {
                return Ok(());
            }
            self.file.set_len(whole as u64)
        });
        if let Err(error) = mended {
            self.give_up(&error);
        }
    }

    /// Appends lines in one write. A failure is logged, and no further line is appended:
    /// a DEL works without a record, too.
    pub(crate) fn append(&self, lines: &[Line]) {
        if !self.is_whole.get() {
            return;
        }
        let lines: Vec<Vec<u8>> = lines.iter().map(Line::to_bytes).collect();
        let bytes = lines.concat();
        if let Err(error) = (&self.file).write_all(&bytes) {
            self.give_up(&error);
            self.mend();
        }
    }

    /// True if every line was written.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }

    fn give_up(&self, error: &io::Error) {
        self.is_whole.set(false);
        let path = self.folder.path_of(&self.name);
        tracing::warn!(path = %path.display(), %error, "the record can't be written");
    }

    /// Removes the record, and the network's folder with its last record.
    pub(crate) fn remove(self) {
        let path = self.folder.path_of(&self.name);
        if let Err(error) = self.folder.remove(&self.name) {
            tracing::warn!(path = %path.display(), %error, "the record can't be removed");
        }
        if let Some(folder) = path.parent() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Drop for Journal {
    /// The kernel releases the lock when the last process that has inherited it has ended. A
    /// daemon that a delegate has started doesn't work for the attachment any more.
    fn drop(&mut self) {
        if self.is_locked && *self.left.get_mut() == Left::Daemons {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Name of the file of an attachment's record.
pub(crate) fn name(attachment: &Attachment) -> String {
    let Attachment {
        container_id,
        ifname,
    } = attachment;
    format!("{container_id}:{ifname}.json")
}

pub(crate) fn attachment_of(file: &str) -> Option<Attachment> {
    let (container_id, ifname) = file.strip_suffix(".json")?.split_once(':')?;
    Some(Attachment {
        container_id: container_id.parse().ok()?,
        ifname: ifname.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::attachment;
    use rustix::io::Errno;

    fn journals(root: &Path) -> Journals {
        Journals::new(root, &"net".parse().unwrap())
    }

    fn create(journals: &Journals) -> Journal {
        match journals.create(&attachment()).unwrap() {
            Opened::Journal(journal) => journal,
            _ => panic!("it is not made"),
        }
    }

    fn open(journals: &Journals) -> Option<Journal> {
        match journals.open(&attachment()).unwrap() {
            Opened::Journal(journal) => Some(journal),
            _ => None,
        }
    }

    #[test]
    fn a_files_name_says_the_attachment() {
        let name = |file: &str| attachment_of(file).map(|it| it.to_string());
        assert_eq!(name("c1:eth0.json").as_deref(), Some("c1 eth0"));
        assert_eq!(name("a.b:eth0.100.json").as_deref(), Some("a.b eth0.100"));
        for file in ["c1.json", "c1:eth0", ":eth0.json", ".x:y.json"] {
            assert_eq!(name(file), None, "{file}");
        }
    }

    #[test]
    fn one_at_a_time_holds_a_record_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let journals = journals(root.path());
        assert!(open(&journals).is_none());
        let mut first = create(&journals);
        assert!(first.lock(Duration::ZERO).unwrap());
        let mut second = open(&journals).unwrap();
        assert!(!second.lock(Duration::from_millis(5)).unwrap());
        first.remove();
        let error = second.lock(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(open(&journals).is_none());
        assert!(!root.path().join("net").exists());
        assert!(create(&journals).lock(Duration::ZERO).unwrap());
    }

    #[test]
    fn a_daemon_that_has_inherited_the_lock_keeps_it_only_if_its_caller_is_killed() {
        let root = tempfile::tempdir().unwrap();
        let journals = journals(root.path());
        for (left, is_free) in [
            (Left::Nothing, false),
            (Left::Daemons, true),
            (Left::Running(Vec::new()), false),
        ] {
            let mut journal = create(&journals);
            assert!(journal.lock(Duration::ZERO).unwrap());
            let inherited = journal.file.try_clone().unwrap();
            journal.note_left(left);
            drop(journal);
            assert_eq!(create(&journals).lock(Duration::ZERO).unwrap(), is_free);
            drop(inherited);
        }
    }

    #[test]
    fn what_proves_that_there_is_no_record_is_told_from_what_leaves_it_unknown() {
        let is_known = |errno: Errno| opened_or_unusable(Err(errno.into())).is_ok();
        for errno in [
            Errno::NAMETOOLONG,
            Errno::NOTDIR,
            Errno::ACCESS,
            Errno::NOSPC,
            Errno::ROFS,
        ] {
            assert!(is_known(errno), "{errno}");
        }
        for errno in [Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert!(!is_known(errno), "{errno}");
        }
    }

    #[test]
    fn lines_follow_a_line_that_was_cut_off() {
        let root = tempfile::tempdir().unwrap();
        let journals = journals(root.path());
        let journal = create(&journals);
        journal.append(&[Line::Added {}]);
        let path = journals.file(&attachment());
        fs::write(&path, "{\"added\":{}}\n{\"resu").unwrap();
        let journal = open(&journals).unwrap();
        journal.mend();
        journal.append(&[Line::Added {}]);
        assert_eq!(
            fs::read(&path).unwrap(),
            b"{\"added\":{}}\n{\"added\":{}}\n"
        );
    }
}
