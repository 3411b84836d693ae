//! Folder of a network's records, a file for each attachment:
//! `<stateDir>/<network>/<containerID>:<ifname>.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::{Attachment, NetworkName};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use state_files::{
    FileId, Journal, MOST_RACES, StateFolder, is_refused, lock_file, names_in, open_if_there,
};

use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;

/// Longest wait of an ADD, or of another GC, for the delegates of a GC.
const MOST_FOR_GC: Duration = Duration::from_secs(20);

/// The records of one network.
pub(crate) struct Records {
    pub(crate) folder: PathBuf,
    network: NetworkName,
}

/// Outcome of the search for a record.
pub(crate) enum Lookup<T> {
    /// There is a record.
    Found(T),
    /// There is no record.
    Missing,
    /// There is no record that may be used, since this call doesn't own the folder or the file; or none
    /// can be made.
    Unusable(io::Error),
}

/// A locked folder of records: no ADD begins.
pub(crate) struct HeldBack(StateFolder);

impl Drop for HeldBack {
    /// Removes the folder if it is empty, before the lock goes with it.
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.path());
    }
}

impl Records {
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

    /// Opens the file of a record without waiting for its lock. A missing one is made.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown whether there is a record, or a GC is running.
    pub(crate) fn create(&self, attachment: &Attachment) -> io::Result<Lookup<RecordFile>> {
        let name = name(attachment);
        let mut races = 0..MOST_RACES;
        loop {
            let folder = StateFolder::create(&self.folder);
            if let Ok(folder) = &folder
                && flock(folder.file(), FlockOperation::NonBlockingLockShared).is_err()
            {
                self.lock(folder)?;
            }
            let made = folder.and_then(|folder| {
                let file = folder.create_file(&name, Journal::ACCESS)?;
                flock(folder.file(), FlockOperation::Unlock)?;
                Ok(RecordFile::new(folder, name.clone(), Journal::new(file)))
            });
            match made {
                Ok(file) => return Ok(Lookup::Found(file)),
                // A call that removes the last record removes the folder, too. Where no folder can be
                // made, as in /proc, the error may be the same.
                Err(error) if error.kind() == io::ErrorKind::NotFound && races.next().is_some() => {
                }
                Err(error) => {
                    return Ok(match self.open(attachment)? {
                        Lookup::Missing => Lookup::Unusable(error),
                        existing => existing,
                    });
                }
            }
        }
    }

    /// Keeps every ADD of the network from making its record until this is dropped. `None` if no ADD can
    /// make one: the folder may not be used, or is missing and can't be made.
    ///
    /// # Errors
    ///
    /// An I/O error: another GC is running, or it is unknown whether the folder is there.
    pub(crate) fn hold_back(&self) -> io::Result<Option<HeldBack>> {
        for _ in 0..MOST_RACES {
            let opened = open_if_there(&self.folder, || StateFolder::open(&self.folder));
            let folder = match lookup(opened)? {
                Lookup::Found(folder) => folder,
                Lookup::Unusable(_) => return Ok(None),
                Lookup::Missing => match StateFolder::create(&self.folder) {
                    Ok(folder) => folder,
                    Err(_) => return Ok(None),
                },
            };
            self.lock(&folder)?;
            let locked = FileId::from(&folder.file().metadata()?);
            if FileId::of(&self.folder).is_ok_and(|current| current == locked) {
                return Ok(Some(HeldBack(folder)));
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn lock(&self, folder: &StateFolder) -> io::Result<()> {
        match lock_file(folder.file(), &self.folder, Some(MOST_FOR_GC), None)? {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "a GC of network {} is running",
                self.network
            ))),
        }
    }

    /// Opens the file of a record without waiting for its lock.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown whether there is a record.
    pub(crate) fn open(&self, attachment: &Attachment) -> io::Result<Lookup<RecordFile>> {
        let open = || {
            let (folder, name) = (StateFolder::open(&self.folder)?, name(attachment));
            match folder.open_file(&name, Journal::ACCESS) {
                Ok(file) => Ok(RecordFile::new(folder, name, Journal::new(file))),
                // It can be read and locked all the same.
                Err(error) if is_read_only(&error) => {
                    let journal = Journal::new(folder.open_file(&name, OFlags::RDONLY)?);
                    let file = RecordFile::new(folder, name, journal);
                    file.give_up(&error);
                    Ok(file)
                }
                Err(error) => Err(error),
            }
        };
        lookup(open_if_there(&self.file(attachment), open))
    }

    /// Verifies that it can be told whether an attachment has a record, and that the folder can be
    /// locked if it is there.
    ///
    /// # Errors
    ///
    /// An I/O error: every ADD would fail by it.
    pub(crate) fn verify(&self) -> io::Result<()> {
        let opened = open_if_there(&self.folder, || StateFolder::open(&self.folder));
        if let Lookup::Found(folder) = lookup(opened)? {
            match flock(folder.file(), FlockOperation::NonBlockingLockShared) {
                // A GC is running.
                Ok(()) | Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads a record; `None` if nothing has been written to its file, `Err` with the reason
    /// if it is damaged.
    ///
    /// # Errors
    ///
    /// An I/O error: the content is unknown.
    pub(crate) fn read(
        &self,
        file: &RecordFile,
        attachment: &Attachment,
    ) -> io::Result<Option<Result<AttachmentRecord, String>>> {
        let lines = file.journal.read()?;
        let is_torn = file.journal.is_torn();
        Ok(AttachmentRecord::parse(
            &lines,
            is_torn,
            &self.network,
            attachment,
        ))
    }

    /// The attachments that have a record, in order. A folder that is proven to be missing has none; a
    /// file in its place proves nothing, since the folder may have been moved.
    ///
    /// # Errors
    ///
    /// An I/O error: the attachments are unknown.
    pub(crate) fn attachments(&self) -> io::Result<Vec<Attachment>> {
        let names = match open_if_there(&self.folder, || names_in(&self.folder)) {
            // No folder can have such a name.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return Ok(Vec::new()),
            names => names?.unwrap_or_default(),
        };
        let mut attachments: Vec<Attachment> = names
            .iter()
            .filter_map(|name| attachment_of(name))
            .collect();
        attachments.sort_unstable();
        Ok(attachments)
    }
}

/// Tells an error that leaves it unknown whether there is a record from one that doesn't.
fn lookup<T>(opened: io::Result<Option<T>>) -> io::Result<Lookup<T>> {
    use io::ErrorKind::{InvalidFilename, NotADirectory};
    match opened {
        Ok(Some(found)) => Ok(Lookup::Found(found)),
        Ok(None) => Ok(Lookup::Missing),
        // No file can have such a path.
        Err(error) if matches!(error.kind(), InvalidFilename | NotADirectory) => {
            Ok(Lookup::Missing)
        }
        Err(error) if is_refused(&error) || error.kind() == io::ErrorKind::IsADirectory => {
            Ok(Lookup::Unusable(error))
        }
        Err(error) => Err(error),
    }
}

/// True if a file can't be written, and perhaps be read.
fn is_read_only(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) && !is_refused(error)
}

/// Name of the file of an attachment's record.
pub(crate) fn name(attachment: &Attachment) -> String {
    format!("{}:{}.json", attachment.container_id, attachment.ifname)
}

fn attachment_of(file: &str) -> Option<Attachment> {
    let (container_id, ifname) = file.strip_suffix(".json")?.split_once(':')?;
    Some(Attachment {
        container_id: container_id.parse().ok()?,
        ifname: ifname.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::line::Line;
    use crate::tests::attachment;
    use std::time::Duration;

    fn records(root: &Path) -> Records {
        Records::new(root, &"net".parse().unwrap())
    }

    fn create(records: &Records) -> RecordFile {
        match records.create(&attachment()).unwrap() {
            Lookup::Found(file) => file,
            _ => panic!("it is not made"),
        }
    }

    fn open(records: &Records) -> Option<RecordFile> {
        match records.open(&attachment()).unwrap() {
            Lookup::Found(file) => Some(file),
            _ => None,
        }
    }

    #[test]
    fn a_files_name_says_the_attachment() {
        let name = |file: &str| attachment_of(file).map(|attachment| attachment.to_string());
        assert_eq!(name("c1:eth0.json").as_deref(), Some("c1 eth0"));
        assert_eq!(name("a.b:eth0.100.json").as_deref(), Some("a.b eth0.100"));
        for file in ["c1.json", "c1:eth0", ":eth0.json", ".x:y.json"] {
            assert_eq!(name(file), None, "{file}");
        }
    }

    #[test]
    fn a_folder_that_can_not_be_read_is_not_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        assert_eq!(records.attachments().unwrap(), []);
        std::os::unix::fs::symlink(&records.folder, &records.folder).unwrap();
        assert!(records.attachments().is_err());
    }

    #[test]
    fn one_at_a_time_holds_a_record_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        assert!(open(&records).is_none());
        let mut first = create(&records);
        assert!(first.lock(Duration::ZERO).unwrap());
        let mut second = open(&records).unwrap();
        assert!(!second.lock(Duration::from_millis(5)).unwrap());
        first.remove();
        drop(first);
        let error = second.lock(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(open(&records).is_none());
        assert!(!root.path().join("net").exists());
        assert!(create(&records).lock(Duration::ZERO).unwrap());
    }

    #[test]
    fn the_lock_is_left_to_who_has_inherited_it_only_after_a_delegate_was_terminated() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        for was_terminated in [false, true] {
            let mut file = create(&records);
            assert!(file.lock(Duration::ZERO).unwrap());
            let inherited = file.journal.file().try_clone().unwrap();
            if was_terminated {
                file.is_left_to_heirs.set(true);
            }
            drop(file);
            let is_free = create(&records).lock(Duration::ZERO).unwrap();
            assert_eq!(is_free, !was_terminated);
            drop(inherited);
        }
    }

    #[test]
    fn an_error_that_proves_that_there_is_no_record_is_told_from_one_that_does_not() {
        let is_known = |errno: Errno| lookup::<()>(Err(errno.into())).is_ok();
        for errno in [Errno::NAMETOOLONG, Errno::NOTDIR, Errno::ISDIR] {
            assert!(is_known(errno), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::IO, Errno::MFILE, Errno::NOMEM] {
            assert!(!is_known(errno), "{errno}");
        }
        let root = tempfile::tempdir().unwrap();
        let missing = records(&root.path().join("a/b"));
        assert!(matches!(missing.open(&attachment()), Ok(Lookup::Missing)));
        // A disk that isn't mounted.
        std::os::unix::fs::symlink("/nowhere/b", root.path().join("a")).unwrap();
        assert!(missing.open(&attachment()).is_err() && missing.create(&attachment()).is_err());
        assert!(missing.verify().is_err() && missing.attachments().is_err());
        assert!(missing.hold_back().is_err());
    }

    #[test]
    fn with_a_file_in_the_place_of_the_folder_an_add_goes_on_and_a_gc_knows_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let in_file = records(file.path());
        assert!(matches!(in_file.open(&attachment()), Ok(Lookup::Missing)));
        assert!(in_file.attachments().is_err());
    }

    #[test]
    fn a_folder_that_can_not_be_made_has_no_record() {
        let in_proc = records(Path::new("/proc/records"));
        let made = in_proc.create(&attachment());
        assert!(matches!(made, Ok(Lookup::Unusable(_))));
        assert!(in_proc.verify().is_ok());
        assert!(matches!(in_proc.hold_back(), Ok(None)));
    }

    #[test]
    fn the_last_del_leaves_the_folder_to_a_gc_which_removes_it() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        let last = create(&records);
        let held_back = records.hold_back().unwrap().unwrap();
        last.remove();
        assert!(records.folder.exists());
        drop(held_back);
        assert!(!records.folder.exists());
    }

    #[test]
    fn lines_follow_a_line_that_was_cut_off() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        create(&records).append(&[Line::Added {}]);
        let path = records.file(&attachment());
        fs::write(&path, "{\"added\":{}}\n{\"resu").unwrap();
        open(&records).unwrap().append(&[Line::Added {}]);
        assert_eq!(
            fs::read(&path).unwrap(),
            b"{\"added\":{}}\n{\"added\":{}}\n"
        );
    }
}
