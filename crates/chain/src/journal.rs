//! File of an attachment's record, which is also the attachment's lock:
//! `<stateDir>/<network>/<containerID>:<ifname>.json`.
//!
//! Lines are appended, each in one write, and DEL removes the file. ADD, DEL and GC hold
//! `flock(2)` on it while they work, and so do the delegates that they execute.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::{Attachment, FileId, NetworkName, StateFolder};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::record::Record;
use crate::record_line::{Line, whole_lines};

/// Longest wait for another call that takes a record over, which takes a millisecond.
const MOST_FOR_TAKING_OVER: Duration = Duration::from_millis(200);

/// Access to the file of a record: it is read, and lines are appended.
const ACCESS: OFlags = OFlags::RDWR.union(OFlags::APPEND);

/// Interval of the attempts at a held lock.
const RETRY: Duration = Duration::from_millis(2);

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

    /// The file of an attachment's record, if it exists.
    pub(crate) fn existing(&self, attachment: &Attachment) -> Option<PathBuf> {
        Some(self.file(attachment)).filter(|file| file.exists())
    }

    /// Opens a journal without waiting for its lock. A missing one is made.
    pub(crate) fn create(&self, attachment: &Attachment) -> io::Result<Journal> {
        let name = name(attachment);
        for _ in 0..MOST_RACES {
            let folder = StateFolder::create(&self.folder)?;
            match folder.create_file(&name, ACCESS) {
                // A call that removes the last record removes the folder, too.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
                Ok(file) => return Ok(Journal::new(folder, name, file)),
            }
        }
        Err(io::Error::other("its folder is removed again and again"))
    }

    /// Opens a journal without waiting for its lock; `None` if it is missing.
    pub(crate) fn open(&self, attachment: &Attachment) -> io::Result<Option<Journal>> {
        let name = name(attachment);
        let opened = StateFolder::open(&self.folder).and_then(|folder| {
            let file = folder.open_file(&name, ACCESS)?;
            Ok(Journal::new(folder, name, file))
        });
        match opened {
            Ok(journal) => Ok(Some(journal)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The attachments that have a record, in order.
    pub(crate) fn attachments(&self) -> Vec<Attachment> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let mut attachments: Vec<Attachment> = entries
            .filter_map(|entry| attachment_of(entry.ok()?.file_name().to_str()?))
            .collect();
        attachments.sort_unstable();
        attachments
    }

    /// Reads the record in a journal; `None` if nothing has been written to it.
    ///
    /// # Errors
    ///
    /// The reason why the record can't be used.
    pub(crate) fn read(
        &self,
        journal: &Journal,
        attachment: &Attachment,
    ) -> Result<Option<Record>, String> {
        let content = journal.read().map_err(|error| error.to_string())?;
        if content.is_empty() {
            return Ok(None);
        }
        Record::parse(&content, &self.network, attachment).map(Some)
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
        }
    }

    /// Locks the record; returns `false` if somebody else still holds it after this time.
    ///
    /// # Errors
    ///
    /// The system's; `NotFound` if the file was removed meanwhile, and must be opened
    /// again.
    pub(crate) fn lock(&mut self, at_most: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + at_most;
        loop {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(RETRY),
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
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

    /// Takes the record over from processes that hold its lock and don't end: the content
    /// is copied to a new file, which replaces the old one and is locked.
    ///
    /// # Errors
    ///
    /// The system's; `NotFound` if another call has replaced or removed the file first.
    pub(crate) fn take_over(&mut self) -> io::Result<()> {
        let file = self.folder.with_lock(MOST_FOR_TAKING_OVER, || {
            self.must_be_named()?;
            self.folder.replace(&self.name, &self.read()?)?;
            let file = self.folder.open_file(&self.name, ACCESS)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        })?;
        self.file = file;
        self.is_locked = true;
        Ok(())
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

    fn journals(root: &Path) -> Journals {
        Journals::new(root, &"net".parse().unwrap())
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
        assert!(journals.open(&attachment()).unwrap().is_none());
        let mut first = journals.create(&attachment()).unwrap();
        assert!(first.lock(Duration::ZERO).unwrap());
        let mut second = journals.open(&attachment()).unwrap().unwrap();
        assert!(!second.lock(Duration::from_millis(5)).unwrap());
        first.remove();
        let error = second.lock(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(journals.open(&attachment()).unwrap().is_none());
        assert!(!root.path().join("net").exists());
        assert!(
            journals
                .create(&attachment())
                .unwrap()
                .lock(Duration::ZERO)
                .unwrap()
        );
    }

    #[test]
    fn lines_follow_a_line_that_was_cut_off() {
        let root = tempfile::tempdir().unwrap();
        let journals = journals(root.path());
        let journal = journals.create(&attachment()).unwrap();
        journal.append(&[Line::Added {}]);
        let path = journals.file(&attachment());
        fs::write(&path, "{\"added\":{}}\n{\"resu").unwrap();
        let journal = journals.open(&attachment()).unwrap().unwrap();
        journal.mend();
        journal.append(&[Line::Added {}]);
        assert_eq!(
            fs::read(&path).unwrap(),
            b"{\"added\":{}}\n{\"added\":{}}\n"
        );
    }
}
