//! Read-only view of records for tools: waits for no lock, makes nothing.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cni::{Attachment, DelegateName, Environment, Error, NetworkConfig, NetworkName, SpecVersion};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde_json::value::RawValue;
use state_files::StateFolder;

use crate::Outcome;
use crate::context::Context;
use crate::delegate_call::Delegates;
use crate::delegates::InstalledDelegates;
use crate::journal::attachment_of;
use crate::plugins::Plugins;
use crate::record::Record;
use crate::record_line::whole_lines;
use crate::settings;
use crate::version_negotiation::supported_versions;

/// A file of the records' folder that is named like a record.
#[derive(Clone, Debug)]
pub struct ListedRecord {
    /// The attachment, by the file's name.
    pub attachment: Attachment,
    /// The file.
    pub file: PathBuf,
    /// Time of the last change.
    pub changed: Option<SystemTime>,
    /// The content; `Err` is the reason why it can't be used.
    pub content: Result<AttachmentRecord, String>,
}

/// The content of a record.
#[derive(Clone, Debug)]
pub struct AttachmentRecord {
    /// Progress of the attachment.
    pub state: RecordState,
    /// Start of the ADD.
    pub added: SystemTime,
    /// Start of the last DEL.
    pub deleting: Option<SystemTime>,
    /// Trace ID of the ADD.
    pub trace: String,
    /// ID of the boot of the ADD, if it is known.
    pub boot: Option<String>,
    /// `CNI_NETNS` of the ADD.
    pub netns: String,
    /// `CNI_ARGS` of the ADD.
    pub args: String,
    /// The delegates of the ADD, in order.
    pub delegates: Vec<DelegateAnswer>,
    /// The lines of the chain's caller, in the order in which they were written
    /// ([`crate::Chain::with_caller_line`]).
    pub caller_lines: Vec<Box<RawValue>>,
    config: Option<Box<RawValue>>,
}

/// Progress of an attachment, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordState {
    /// ADD has begun and has not ended; or it has failed, and was not undone.
    Adding,
    /// ADD has succeeded.
    Added,
    /// DEL has begun and has not ended, or has failed.
    Deleting,
}

/// A delegate of a recorded ADD.
#[derive(Clone, Debug)]
pub struct DelegateAnswer {
    /// Its name.
    pub name: DelegateName,
    /// Its result; `None` if it is not recorded.
    pub result: Option<Box<RawValue>>,
}

impl RecordState {
    /// The state as a word: `adding`, `added`, `deleting`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adding => "adding",
            Self::Added => "added",
            Self::Deleting => "deleting",
        }
    }
}

impl AttachmentRecord {
    /// Start of the current state.
    pub fn since(&self) -> SystemTime {
        self.deleting.unwrap_or(self.added)
    }

    /// The configuration of the ADD, if it is recorded.
    pub fn config(&self) -> Option<NetworkConfig> {
        NetworkConfig::parse(self.config.as_ref()?.get().as_bytes().to_vec()).ok()
    }

    /// The configuration of the ADD as it is recorded.
    pub fn raw_config(&self) -> Option<&RawValue> {
        self.config.as_deref()
    }

    /// The last line of the chain's caller, if there is one.
    pub fn caller_line(&self) -> Option<&RawValue> {
        self.caller_lines.last().map(|line| &**line)
    }

    /// The answer of the last delegate, if ADD has got that far.
    pub fn answer(&self) -> Option<&RawValue> {
        self.delegates.last()?.result.as_deref()
    }
}

impl From<Record> for AttachmentRecord {
    fn from(record: Record) -> Self {
        let results = record.delegates();
        let delegates = results
            .iter()
            .map(|it| DelegateAnswer {
                name: it.name.clone(),
                result: it.result.map(ToOwned::to_owned),
            })
            .collect();
        let deleting = record.deleting().map(|call| call.id.started());
        let state = match (deleting, record.stands()) {
            (Some(_), _) => RecordState::Deleting,
            (None, true) => RecordState::Added,
            (None, false) => RecordState::Adding,
        };
        let caller_lines = record.caller_lines;
        let intent = record.intent;
        Self {
            state,
            added: intent.call.id.started(),
            deleting,
            trace: intent.trace,
            boot: intent.boot,
            netns: intent.netns,
            args: intent.args,
            delegates,
            caller_lines,
            config: intent.config,
        }
    }
}

/// The folder of the records of this configuration: `ipam.stateDir` or its default.
///
/// # Errors
///
/// Code 7 for a relative path, code 4 for one in the environment.
pub fn state_dir(config: &NetworkConfig, environment: &Environment) -> Result<PathBuf, Error> {
    settings::state_dir(environment, &config.ipam()?)
}

/// The longest that a plugin may take to say its versions: it only has to print a constant.
const MOST_FOR_VERSIONS: &str = "5s";

/// The versions of the specification that an installed plugin says it supports. One that
/// takes longer than five seconds is terminated with all that it has started.
///
/// # Errors
///
/// The reason: it is missing, it has failed, its answer is none.
pub fn versions(
    name: &DelegateName,
    version: SpecVersion,
    environment: &Environment,
) -> Result<Vec<String>, String> {
    let config = format!(
        r#"{{"cniVersion":"{version}","name":"version","ipam":{{"delegates":["{name}"],"delegateTimeout":"{MOST_FOR_VERSIONS}"}}}}"#
    );
    let config = NetworkConfig::parse(config.into_bytes()).map_err(|error| error.msg)?;
    let settings = settings::Settings::read(&config, environment).map_err(|error| error.msg)?;
    let plugins = Plugins::in_cni_path(environment).map_err(|error| error.msg)?;
    let context = Context::new(settings, &config, environment, plugins);
    let mut installed = InstalledDelegates::new(&context, environment.clone());
    match installed.ask_version(name, version) {
        Outcome::Result(output) => supported_versions(&output),
        Outcome::Nothing => Err("it prints nothing on VERSION".to_owned()),
        Outcome::Failed(failure) => Err(failure.to_error().msg),
    }
}

/// The networks that have a folder of records, in order.
///
/// # Errors
///
/// The system's. A missing folder is empty.
pub fn networks(state_dir: &Path) -> io::Result<Vec<NetworkName>> {
    let mut names: Vec<NetworkName> = names(state_dir)?
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// The attachments that have a file of a record, in order. No record is read.
///
/// # Errors
///
/// The system's. A missing folder is empty.
pub fn attachments(state_dir: &Path, network: &NetworkName) -> io::Result<Vec<Attachment>> {
    let names = names(&state_dir.join(network.as_str()))?;
    let mut attachments: Vec<Attachment> = names
        .iter()
        .filter_map(|name| attachment_of(name))
        .collect();
    attachments.sort_unstable();
    Ok(attachments)
}

/// Lists the records of a network, in the order of their attachments.
///
/// Other processes may change them meanwhile. A record that is removed meanwhile is not
/// listed. The files are read by several threads where there are many.
///
/// # Errors
///
/// The system's. A missing folder is empty.
pub fn records(state_dir: &Path, network: &NetworkName) -> io::Result<Vec<ListedRecord>> {
    let attachments = attachments(state_dir, network)?;
    if attachments.is_empty() {
        return Ok(Vec::new());
    }
    let folder = StateFolder::open(&state_dir.join(network.as_str()))?;
    let read = |attachment: &Attachment| record(&folder, network, attachment);
    let listed = state_files::in_threads(&attachments, read);
    listed.into_iter().filter_map(Result::transpose).collect()
}

/// Reads the record of one attachment; `None` if there is none.
///
/// # Errors
///
/// The system's.
pub fn record_of(
    state_dir: &Path,
    network: &NetworkName,
    attachment: &Attachment,
) -> io::Result<Option<ListedRecord>> {
    match StateFolder::open(&state_dir.join(network.as_str())) {
        Ok(folder) => record(&folder, network, attachment),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn record(
    folder: &StateFolder,
    network: &NetworkName,
    attachment: &Attachment,
) -> io::Result<Option<ListedRecord>> {
    let name = crate::journal::name(attachment);
    let file = folder.path_of(&name);
    let (content, changed) = match folder.read_with_time(&name) {
        // A call has made the file, and is about to write its first line.
        Ok((content, _)) if whole_lines(&content).is_empty() => return Ok(None),
        Ok((content, changed)) => (
            Record::parse(&content, network, attachment).map(AttachmentRecord::from),
            changed,
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => (Err(error.to_string()), None),
    };
    Ok(Some(ListedRecord {
        attachment: attachment.clone(),
        file,
        changed,
        content,
    }))
}

/// True if a call works on the attachment of this record now: it holds the record's lock.
///
/// The lock is asked for without a wait and given back at once. A call that asks for it in
/// the same instant tries again two milliseconds later.
///
/// # Errors
///
/// The system's. A missing file is not locked.
pub fn is_locked(record: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(record, flags, rustix::fs::Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The names in a folder; none if it is missing.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.filter_map(|entry| {
        let name = entry.map(|it| it.file_name().into_string().ok());
        name.transpose()
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_line::{Intent, Line, RecordedCall};
    use crate::testing::{attachment, config};
    use std::os::unix::fs::PermissionsExt;

    fn lines(states: &[&str]) -> Vec<u8> {
        let call = || RecordedCall {
            id: crate::call_id::CallId::new(),
        };
        let mut bytes = Vec::new();
        for state in states {
            let line = match *state {
                "adding" => {
                    let config = config("");
                    let delegates = ["s", "a"].map(|name| name.parse().unwrap());
                    let mut intent = Intent::new(&config, &attachment(), &delegates, call());
                    intent.args = "K8S_POD_NAME=web".into();
                    Line::Adding(Box::new(intent))
                }
                "result" => Line::Result(RawValue::from_string(r#"{"ips":[]}"#.into()).unwrap()),
                "added" => Line::Added {},
                _ => Line::Deleting(call()),
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
        let file = folder.join(crate::journal::name(&attachment()));
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
            let results = record.delegates.iter().filter_map(|it| it.result.as_ref());
            assert_eq!((results.count(), record.delegates.len()), (answers, 2));
            assert_eq!(record.args, "K8S_POD_NAME=web");
            assert!(record.since() >= before && record.since() <= SystemTime::now());
        }
        assert_eq!(networks(root.path()).unwrap(), vec![network.clone()]);
        // Being written.
        for begun in ["", "{"] {
            fs::write(&file, begun).unwrap();
            assert!(records(root.path(), &network).unwrap().is_empty());
        }
        fs::write(&file, "{\n").unwrap();
        let listed = records(root.path(), &network).unwrap();
        assert!(listed[0].content.is_err());
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
