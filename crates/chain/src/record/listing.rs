//! Lists records for tools, read-only: waits for no lock, makes no file.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cni::{Attachment, NetworkName};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use state_files::{StateFolder, open_if_there, parsed_names_in, whole_lines};

use crate::record::attachment_record::AttachmentRecord;
use crate::record::folder::{Records, name};

/// A file of the records' folder that is named like a record.
#[derive(Clone, Debug)]
pub struct ListedRecord {
    /// The network, by the folder's name.
    pub network: NetworkName,
    /// The attachment, by the file's name.
    pub attachment: Attachment,
    /// Path of the file below the `stateDir`.
    pub file: PathBuf,
    /// Time of the last change.
    pub changed: Option<SystemTime>,
    /// The content; `Err` is the reason why it can't be used.
    pub content: Result<AttachmentRecord, String>,
}

impl ListedRecord {
    /// The content, if it can be used.
    pub fn usable(&self) -> Option<&AttachmentRecord> {
        self.content.as_ref().ok()
    }

    /// The `stateDir`.
    pub fn state_dir(&self) -> &Path {
        let state_dir = self.file.ancestors().nth(2);
        state_dir.unwrap_or(Path::new("/"))
    }

    /// The records that it is one of.
    pub(crate) fn siblings(&self) -> Records {
        Records::new(self.state_dir(), &self.network)
    }
}

/// The networks that have a folder of records, in order.
///
/// # Errors
///
/// An I/O error. A folder that is proven to be missing is empty.
pub fn networks(state_dir: &Path) -> io::Result<Vec<NetworkName>> {
    parsed_names_in(state_dir)
}

/// The attachments that have a record, in order. No record is read.
///
/// # Errors
///
/// An I/O error. A folder that is proven to be missing is empty.
pub fn attachments(state_dir: &Path, network: &NetworkName) -> io::Result<Vec<Attachment>> {
    Records::new(state_dir, network).attachments()
}

/// Lists the records of a network, in the order of their attachments.
///
/// Other processes may change them meanwhile. A record that is removed meanwhile is not
/// listed. The files are read by several threads where there are many.
///
/// # Errors
///
/// An I/O error. A folder that is proven to be missing is empty.
pub fn records(state_dir: &Path, network: &NetworkName) -> io::Result<Vec<ListedRecord>> {
    let attachments = attachments(state_dir, network)?;
    if attachments.is_empty() {
        return Ok(Vec::new());
    }
    // The last record may have been removed since, and with it the folder.
    let Some(folder) = folder_of(state_dir, network)? else {
        return Ok(Vec::new());
    };
    let read = |attachment: &Attachment| record(&folder, network, attachment);
    let listed = state_files::in_threads(&attachments, read);
    Ok(listed.into_iter().flatten().collect())
}

/// Reads the record of one attachment; `None` if there is none.
///
/// # Errors
///
/// An I/O error.
pub fn record_of(
    state_dir: &Path,
    network: &NetworkName,
    attachment: &Attachment,
) -> io::Result<Option<ListedRecord>> {
    let folder = folder_of(state_dir, network)?;
    Ok(folder.and_then(|folder| record(&folder, network, attachment)))
}

fn folder_of(state_dir: &Path, network: &NetworkName) -> io::Result<Option<StateFolder>> {
    let path = state_dir.join(network.as_str());
    open_if_there(&path, || StateFolder::open(&path))
}

fn record(
    folder: &StateFolder,
    network: &NetworkName,
    attachment: &Attachment,
) -> Option<ListedRecord> {
    let name = name(attachment);
    let (content, changed) = match folder.read_with_time(&name) {
        Ok((content, changed)) => {
            let lines = whole_lines(&content);
            // A call may be writing the first line.
            if lines.is_empty() && is_locked(&folder.path_of(&name)).unwrap_or_default() {
                return None;
            }
            let is_torn = lines.len() < content.len();
            let parsed = AttachmentRecord::parse(lines, is_torn, network, attachment)?;
            (parsed, changed)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => (Err(error.to_string()), None),
    };
    Some(ListedRecord {
        network: network.clone(),
        attachment: attachment.clone(),
        file: folder.path_of(&name),
        changed,
        content,
    })
}

/// True if a call works on the attachment of this record now: it holds the record's lock.
///
/// The lock is requested without a wait, and released at once. A call that requests it in the
/// same instant waits for it.
///
/// # Errors
///
/// An I/O error. A missing file is not locked.
pub fn is_locked(record: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || Ok(rustix::fs::open(record, flags, rustix::fs::Mode::empty())?);
    let Some(file) = open_if_there(record, open)? else {
        return Ok(false);
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cni::Environment;

    use super::*;
    use crate::record::attachment_record::RecordState;
    use crate::record::line::{Intent, Line};
    use crate::tests::{attachment, config};
    use serde_json::value::RawValue;
    use std::os::unix::fs::PermissionsExt;

    fn lines(states: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for state in states {
            let line = match *state {
                "adding" => {
                    let config = config("");
                    let delegates = ["s", "a"].map(|name| name.parse().unwrap());
                    let environment = Environment::default().with("CNI_ARGS", "K8S_POD_NAME=web");
                    let intent = Intent::new(&config, &attachment(), &delegates, &environment);
                    Line::Adding(Box::new(intent))
                }
                "result" => Line::Result(RawValue::from_string(r#"{"ips":[]}"#.into()).unwrap()),
                "added" => Line::Added {},
                _ => Line::deleting(),
            };
            bytes.extend(line.to_bytes());
        }
        bytes
    }

    #[test]
    fn a_record_is_listed_with_its_state_its_start_and_its_answers() {
        let root = tempfile::tempdir().unwrap();
        let network = config("").name().clone();
        let folder = root.path().join(network.as_str());
        let private = fs::Permissions::from_mode(0o700);
        assert_eq!(networks(&root.path().join("none")).unwrap(), []);
        assert!(records(root.path(), &network).unwrap().is_empty());
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, private).unwrap();
        fs::write(folder.join("foreign"), "x").unwrap();
        let file = folder.join(name(&attachment()));
        let before = SystemTime::now();
        for (written, state, answers) in [
            (&["adding"][..], RecordState::Adding, 0),
            (&["adding", "result"], RecordState::Adding, 1),
            (
                &["adding", "result", "result", "added"],
                RecordState::Added,
                2,
            ),
            (
                &["adding", "result", "result", "added", "deleting"],
                RecordState::Deleting,
                2,
            ),
        ] {
            fs::write(&file, lines(written)).unwrap();
            let listed = records(root.path(), &network).unwrap();
            let record = listed[0].content.as_ref().unwrap();
            assert_eq!((record.state, listed.len()), (state, 1));
            let results = record
                .delegates
                .iter()
                .filter_map(|delegate| delegate.result.as_ref());
            assert_eq!((results.count(), record.delegates.len()), (answers, 2));
            assert_eq!(record.args, "K8S_POD_NAME=web");
            assert!(record.since() >= before && record.since() <= SystemTime::now());
        }
        assert_eq!(networks(root.path()).unwrap(), vec![network.clone()]);
        // Being written, then cut off, as it is to a call.
        for begun in ["", "{"] {
            fs::write(&file, begun).unwrap();
            let written = fs::File::open(&file).unwrap();
            flock(&written, FlockOperation::NonBlockingLockExclusive).unwrap();
            assert!(records(root.path(), &network).unwrap().is_empty());
            drop(written);
            let listed = records(root.path(), &network).unwrap();
            assert_eq!(listed.len(), begun.len());
            assert!(listed.iter().all(|listed| listed.content.is_err()));
        }
        fs::write(&file, "{\n").unwrap();
        let listed = records(root.path(), &network).unwrap();
        assert!(listed[0].content.is_err());
    }

    #[test]
    fn a_record_that_is_removed_during_the_listing_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        let network = config("").name().clone();
        let folder = root.path().join(network.as_str());
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                for _ in 0..500 {
                    StateFolder::create(&folder).unwrap();
                    fs::write(folder.join(name(&attachment())), lines(&["adding"])).unwrap();
                    fs::remove_dir_all(&folder).unwrap();
                }
            });
            while !changing.is_finished() {
                records(root.path(), &network).unwrap();
            }
        });
    }

    #[test]
    fn a_folder_that_may_not_be_used_is_not_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let network = config("").name().clone();
        let folder = root.path().join(network.as_str());
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(folder.join(name(&attachment())), lines(&["adding"])).unwrap();
        let error = records(root.path(), &network).unwrap_err().to_string();
        assert!(error.contains("others may write to it"), "{error}");
    }

    #[test]
    fn what_can_not_be_read_is_told_from_what_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        let network = config("").name().clone();
        let of = |root: &Path| record_of(root, &network, &attachment());
        assert!(of(root.path()).unwrap().is_none());
        let folder = root.path().join(network.as_str());
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(of(root.path()).unwrap().is_none());
        fs::create_dir(folder.join(name(&attachment()))).unwrap();
        assert!(of(root.path()).unwrap().unwrap().content.is_err());
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(of(&file).is_err());
        assert!(networks(&file).is_err());
    }

    #[test]
    fn a_record_that_is_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (path, link) = (root.path().join("record"), root.path().join("link"));
        fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(is_locked(&link).is_err());
    }

    #[test]
    fn a_lock_is_seen_and_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("record");
        assert!(!is_locked(&path).unwrap());
        fs::write(&path, "").unwrap();
        assert!(!is_locked(&path).unwrap());
        let file = fs::File::open(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(is_locked(&path).unwrap());
    }
}
