//! The file on a node's disk that its name is registered with: a token, and the values that
//! this disk has sent to etcd.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use cluster::{Cluster, Registration};
use cni::Error;
use serde::{Deserialize, Serialize};
use state_files::StateFolder;

/// Version of the file.
const VERSION: u32 = 2;

/// Values that are kept of each kind.
const MOST_KEPT: usize = 16;

/// The file's content.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    node: String,
    #[serde(default)]
    token: String,
    /// The last values that etcd has confirmed: after a restore, it has an earlier one.
    #[serde(default)]
    confirmed: Vec<String>,
    /// Values that were sent since then: etcd may have taken one.
    #[serde(default)]
    pending: Vec<String>,
    /// Version 1: the only value.
    #[serde(default, skip_serializing)]
    value: Option<String>,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: StateFolder,
    name: String,
    node: String,
}

/// What the disk knows, while its folder is locked.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    disk: &'a Disk,
    content: Content,
}

impl Disk {
    /// Opens `etcd.stateDir`; makes it if it is missing.
    ///
    /// # Errors
    ///
    /// Code 5, naming the folder.
    pub(crate) fn open(cluster: &Cluster) -> Result<Self, Error> {
        let path = &cluster.settings.state_dir;
        let folder = StateFolder::create(path).map_err(|e| Error::io(path.display(), e))?;
        let prefix = cluster.settings.prefix.replace('/', "_");
        Ok(Self {
            folder,
            name: format!("token{prefix}_{}.json", cluster.node),
            node: cluster.node.clone(),
        })
    }

    /// The path of the file, for people.
    pub(crate) fn path(&self) -> String {
        self.folder.path_of(&self.name).display().to_string()
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        Error::io(self.path(), why)
    }

    /// The token; `None` if the disk has none yet.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file: it can't be read, or is not ours.
    pub(crate) fn token(&self) -> Result<Option<String>, Error> {
        Ok(self.read()?.map(|it| it.token))
    }

    fn read(&self) -> Result<Option<Content>, Error> {
        let bytes = match self.folder.read(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.failed(error))?,
        };
        let mut content: Content = serde_json::from_slice(&bytes)
            .map_err(|error| self.failed(format_args!("it is no token: {error}")))?;
        if let (1, Some(value)) = (content.version, content.value.take()) {
            let before = Registration::parse(value.as_bytes());
            content.token = before.map(|it| it.token).unwrap_or_default();
            content.confirmed = vec![value];
        } else if content.version != VERSION {
            let version = content.version;
            return Err(self.failed(format_args!(
                "it is of version {version}, of a later release than this"
            )));
        }
        if content.token.is_empty() {
            return Err(self.failed("it has no token"));
        }
        content.version = VERSION;
        Ok(Some(content))
    }

    /// Runs `f` while no other process registers; `None` if one does so for longer than this.
    ///
    /// # Errors
    ///
    /// Those of `f`; code 5, naming the file.
    pub(crate) fn alone<T>(
        &self,
        at_most: Duration,
        f: impl FnOnce(&mut Known<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let locked = || {
            let content = match self.read()? {
                Some(content) => content,
                None => self.new_content()?,
            };
            f(&mut Known {
                disk: self,
                content,
            })
        };
        match self.folder.with_lock(at_most, || Ok(locked())) {
            Ok(done) => done.map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn new_content(&self) -> Result<Content, Error> {
        Ok(Content {
            version: VERSION,
            node: self.node.clone(),
            token: random()?,
            confirmed: Vec::new(),
            pending: Vec::new(),
            value: None,
        })
    }
}

impl Known<'_> {
    /// The token.
    pub(crate) fn token(&self) -> &str {
        &self.content.token
    }

    /// True if this disk has sent the value.
    pub(crate) fn has_sent(&self, value: &[u8]) -> bool {
        let Content {
            confirmed, pending, ..
        } = &self.content;
        confirmed
            .iter()
            .chain(pending)
            .any(|it| it.as_bytes() == value)
    }

    /// Notes a value before it is sent: whatever happens then, the disk knows it for its own.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file.
    pub(crate) fn sends(&mut self, value: &str) -> Result<(), Error> {
        keep(&mut self.content.pending, value);
        self.write()
    }

    /// Notes that etcd has confirmed a value.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file.
    pub(crate) fn confirmed(&mut self, value: &str) -> Result<(), Error> {
        keep(&mut self.content.confirmed, value);
        self.content.pending.clear();
        self.write()
    }

    fn write(&self) -> Result<(), Error> {
        let json = serde_json::to_vec(&self.content).expect("texts are JSON");
        // Lost by a power failure, the node would be taken for another one of its name.
        let Disk { folder, name, .. } = self.disk;
        let written = folder.replace_durably(name, &json);
        written.map_err(|error| self.disk.failed(error))
    }
}

/// Appends a value; the oldest one goes if there are too many.
fn keep(values: &mut Vec<String>, value: &str) {
    if values.len() == MOST_KEPT {
        values.remove(0);
    }
    values.push(value.to_owned());
}

/// 128 bits that no other node has.
///
/// # Errors
///
/// Code 5.
pub(crate) fn random() -> Result<String, Error> {
    let mut bits = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut it| it.read_exact(&mut bits))
        .map_err(|error| Error::io("/dev/urandom", error))?;
    let mut text = String::with_capacity(32);
    for byte in bits {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
