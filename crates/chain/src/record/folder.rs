//! Folder of a network's records, a file for each attachment:
//! `<stateDir>/<network>/<containerID>:<ifname>.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cni::{Attachment, NetworkName};
use state_files::{Journal, StateFolder, names_in};

use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;

/// Number of attempts to make a file in a folder that other calls remove with its last
/// file.
const MOST_RACES: usize = 100;

/// The records of one network.
pub(crate) struct Records {
    folder: PathBuf,
    network: NetworkName,
}

/// Result of looking for a record.
pub(crate) enum Found<T> {
    /// A record.
    Record(T),
    /// No file (`NotFound`), or none that may be used: this call isn't the owner of the folder
    /// or of the file, or the disk takes no more file.
    Unusable(io::Error),
}

impl Records {
    pub(crate) fn new(state_dir: &Path, network: &NetworkName) -> Self {
        Self {
            folder: state_dir.join(network.as_str()),
            network: network.clone(),
        }
    }

    /// The folder of the records.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of an attachment's record.
    pub(crate) fn file(&self, attachment: &Attachment) -> PathBuf {
        self.folder.join(name(attachment))
    }

    /// The file of an attachment's record, unless it is known to be missing.
    pub(crate) fn existing(&self, attachment: &Attachment) -> Option<PathBuf> {
        let file = self.file(attachment);
        match fs::symlink_metadata(&file) {
            Err(error) if proves_absence(&error) => None,
            _ => Some(file),
        }
    }

    /// Opens the file of a record without waiting for its lock. A missing one is made.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown whether there is a record.
    pub(crate) fn create(&self, attachment: &Attachment) -> io::Result<Found<RecordFile>> {
        let name = name(attachment);
        for _ in 0..MOST_RACES {
            let opened = StateFolder::create(&self.folder).and_then(|folder| {
                let file = folder.create_file(&name, Journal::ACCESS)?;
                Ok(RecordFile::new(folder, name.clone(), Journal::new(file)))
            });
            match opened {
                // A call that removes the last record removes the folder, too.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return found(other),
            }
        }
        Err(io::Error::other("its folder is removed again and again"))
    }

    /// Opens the file of a record without waiting for its lock.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown whether there is a record.
    pub(crate) fn open(&self, attachment: &Attachment) -> io::Result<Found<RecordFile>> {
        let name = name(attachment);
        found(StateFolder::open(&self.folder).and_then(|folder| {
            let file = folder.open_file(&name, Journal::ACCESS)?;
            Ok(RecordFile::new(folder, name, Journal::new(file)))
        }))
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
        let parse = || AttachmentRecord::parse(&lines, &self.network, attachment);
        Ok((!lines.is_empty() || file.journal.is_torn()).then(parse))
    }

    /// The attachments that have a record, in order.
    ///
    /// # Errors
    ///
    /// An I/O error: the attachments are unknown.
    pub(crate) fn attachments(&self) -> io::Result<Vec<Attachment>> {
        attachments_in(&self.folder)
    }
}

/// The attachments that have a record in this folder, in order. A missing folder has none.
pub(crate) fn attachments_in(folder: &Path) -> io::Result<Vec<Attachment>> {
    let names = match names_in(folder) {
        Err(error) if proves_absence(&error) => return Ok(Vec::new()),
        names => names?,
    };
    let attachments = names.iter().filter_map(|name| attachment_of(name));
    let mut attachments: Vec<Attachment> = attachments.collect();
    attachments.sort_unstable();
    Ok(attachments)
}

/// True if an error proves that there is no file of this path: a part of it is missing, is no
/// folder, or is too long for the file system.
fn proves_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// Tells an error that leaves it unknown whether there is a record from one that doesn't.
fn found<T>(opened: io::Result<T>) -> io::Result<Found<T>> {
    use io::ErrorKind::{
        IsADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    match opened {
        Ok(record) => Ok(Found::Record(record)),
        Err(error) if proves_absence(&error) => Ok(Found::Unusable(error)),
        Err(error) => match error.kind() {
            IsADirectory | PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull => {
                Ok(Found::Unusable(error))
            }
            _ => Err(error),
        },
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
    use crate::leftover_processes::Left;
    use crate::record::line::Line;
    use crate::tests::attachment;
    use rustix::io::Errno;
    use std::time::Duration;

    fn records(root: &Path) -> Records {
        Records::new(root, &"net".parse().unwrap())
    }

    fn create(records: &Records) -> RecordFile {
        match records.create(&attachment()).unwrap() {
            Found::Record(file) => file,
            _ => panic!("it is not made"),
        }
    }

    fn open(records: &Records) -> Option<RecordFile> {
        match records.open(&attachment()).unwrap() {
            Found::Record(file) => Some(file),
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
        std::os::unix::fs::symlink(records.folder(), records.folder()).unwrap();
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
        let error = second.lock(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(open(&records).is_none());
        assert!(!root.path().join("net").exists());
        assert!(create(&records).lock(Duration::ZERO).unwrap());
    }

    #[test]
    fn a_daemon_that_has_inherited_the_lock_keeps_it_only_if_its_caller_is_killed() {
        let root = tempfile::tempdir().unwrap();
        let records = records(root.path());
        for (left, is_free) in [
            (Left::Nothing, false),
            (Left::Daemons, true),
            (Left::Running(Vec::new()), false),
        ] {
            let mut file = create(&records);
            assert!(file.lock(Duration::ZERO).unwrap());
            let inherited = file.file().try_clone().unwrap();
            let is_at_work = matches!(left, Left::Running(_));
            file.note_left(left);
            assert_eq!(file.is_at_work(), is_at_work);
            drop(file);
            assert_eq!(create(&records).lock(Duration::ZERO).unwrap(), is_free);
            drop(inherited);
        }
    }

    #[test]
    fn an_error_that_proves_that_there_is_no_record_is_told_from_one_that_does_not() {
        let is_known = |errno: Errno| found::<()>(Err(errno.into())).is_ok();
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
