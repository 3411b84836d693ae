//! The node's token: on its disk and in etcd, so that no two nodes use one name.
//!
//! GC releases what a node holds for attachments that its runtime doesn't list. Of two nodes
//! with one name, each would release the other's addresses while their containers run. So a
//! node that reserves compares the token in the same transaction, and a node whose disk has
//! another token than etcd is refused.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::time::{Duration, Instant};

use cluster::{Cluster, NodeToken, Since};
use cni::{Error, StateFolder, code};
use etcd::{Client, Compare, Op, Range, Txn};
use serde::{Deserialize, Serialize};

/// Version of the file.
const VERSION: u32 = 1;

/// Longest wait for another process that makes the file.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Time after which one that waits looks for the file again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The file's content.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    node: String,
    /// The value in etcd, byte for byte.
    value: String,
    /// True if etcd has taken it.
    registered: bool,
}

/// The token on this node's disk.
#[derive(Debug)]
pub struct DiskToken {
    folder: StateFolder,
    name: String,
    key: String,
    content: Content,
}

/// The reason why a node's name can't be used.
#[derive(Clone, Debug)]
pub struct TokenError(Error);

impl From<TokenError> for Error {
    fn from(error: TokenError) -> Self {
        error.0
    }
}

impl DiskToken {
    /// Reads the token from `etcd.stateDir`; makes one if there is none.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file: it can't be read, or written, or is not ours.
    pub fn open(cluster: &Cluster) -> Result<Self, Error> {
        let path = &cluster.settings.state_dir;
        let failed = |error: io::Error| Error::io(path.display(), error);
        let folder = StateFolder::create(path).map_err(failed)?;
        let name = file_name(cluster, &cluster.node);
        let started = Instant::now();
        let content = loop {
            if let Some(content) = read(&folder, &name)? {
                break content;
            }
            // A thousand calls on a new node wait for one of them: for the file that it makes,
            // and not for the lock after each other.
            match folder.with_lock(LOOK_AGAIN, || Ok(make(&folder, &name, &cluster.node))) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && started.elapsed() < LONGEST_WAIT => {}
                made => break made.map_err(failed)??,
            }
        };
        Ok(Self {
            key: cluster.keys.token(&cluster.node),
            folder,
            name,
            content,
        })
    }

    /// The condition of a transaction: etcd has this token for the node.
    pub fn is_ours(&self) -> Compare {
        Compare::value(self.key.as_str(), self.content.value.as_str())
    }

    /// A read of etcd's token, for the else-branch.
    pub fn read(&self) -> Range {
        Range::key(self.key.as_str())
    }

    /// Makes sure that etcd has taken the token once. It asks etcd only the first time.
    ///
    /// # Errors
    ///
    /// Those of etcd; code 7 if another disk has the name.
    pub fn register(&mut self, client: &mut Client<'_>, node: &str) -> Result<(), Error> {
        if self.content.registered {
            return Ok(());
        }
        self.register_again(client, node)
    }

    /// Puts the token into etcd if none is there, such as after `ipamctl node-forget`, when
    /// the node comes back.
    ///
    /// # Errors
    ///
    /// As [`Self::register`].
    pub fn register_again(&mut self, client: &mut Client<'_>, node: &str) -> Result<(), Error> {
        let value = self.content.value.as_str();
        let answer = client.txn(&Txn {
            when: vec![Compare::is_missing(self.key.as_str())],
            then: vec![Op::put(self.key.as_str(), value)],
            otherwise: vec![Op::get(self.read())],
        })?;
        if !answer.succeeded {
            let found = answer.ranges().next().and_then(|it| it.kvs.first());
            self.verify(found.map(|it| it.value.as_slice()), node)?;
        }
        if !self.content.registered {
            self.content.registered = true;
            let json = serde_json::to_vec(&self.content).expect("texts are JSON");
            // Without it, the next ADD asks once more.
            let written = self.folder.with_lock(Duration::ZERO, || {
                self.folder.replace_durably(&self.name, &json)
            });
            if let Err(error) = written {
                tracing::debug!(%error, "the token is not marked as registered");
            }
        }
        Ok(())
    }

    /// Refuses another token than this; a missing one is no error.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn verify(&self, found: Option<&[u8]>, node: &str) -> Result<(), TokenError> {
        let Some(other) = found.filter(|it| *it != self.content.value.as_bytes()) else {
            return Ok(());
        };
        let since = NodeToken::parse(other).map_or("unknown".to_owned(), |it| it.since);
        let path = self.folder.path_of(&self.name);
        Err(TokenError(
            Error::new(
                code::INVALID_CONFIG,
                format!("ipam.node: {node:?} is the name of another node, since {since}: etcd has another token for it than {}", path.display()),
            )
            .with_details(format!(
                "give this node a name of its own; or, if it is the same node with a new disk, release what the old one held: ipamctl node-forget {node}"
            )),
        ))
    }
}

/// The names that this node had before, by the tokens on its disk. A host is renamed while its
/// containers run, and what they have stays below the old name. Empty if the disk can't be
/// read.
pub fn former_names(cluster: &Cluster) -> Vec<String> {
    tokens_of_others(cluster).unwrap_or_else(|error| {
        let path = cluster.settings.state_dir.display();
        tracing::warn!(%path, %error, "no names that the node had before are known");
        Vec::new()
    })
}

/// The names that tokens on the disk are of, without the present one.
fn tokens_of_others(cluster: &Cluster) -> io::Result<Vec<String>> {
    let path = &cluster.settings.state_dir;
    let folder = match StateFolder::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.file_name();
        let Some(file) = file.to_str().filter(|it| is_file_name(it)) else {
            continue;
        };
        if *file == file_name(cluster, &cluster.node) {
            continue;
        }
        let content = folder.read(file)?;
        // One of another prefix, or of a later release, is left alone.
        if let Ok(Content { node, .. }) = serde_json::from_slice(&content)
            && *file == file_name(cluster, &node)
        {
            names.push(node);
        }
    }
    Ok(names)
}

fn file_name(cluster: &Cluster, node: &str) -> String {
    let prefix = cluster.settings.prefix.replace('/', "_");
    format!("token{prefix}_{node}.json")
}

fn is_file_name(name: &str) -> bool {
    name.starts_with("token_") && name.ends_with(".json")
}

fn read(folder: &StateFolder, name: &str) -> Result<Option<Content>, Error> {
    let failed = |why: &dyn std::fmt::Display| Error::io(folder.path_of(name).display(), why);
    let bytes = match folder.read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| failed(&error))?,
    };
    let content: Content = serde_json::from_slice(&bytes)
        .map_err(|error| failed(&format_args!("it is no token: {error}")))?;
    if content.version != VERSION {
        let version = content.version;
        return Err(failed(&format_args!(
            "it is of version {version}, of a later release than this"
        )));
    }
    Ok(Some(content))
}

/// Makes the file, unless another process has.
fn make(folder: &StateFolder, name: &str, node: &str) -> Result<Content, Error> {
    if let Some(content) = read(folder, name)? {
        return Ok(content);
    }
    let failed = |error: io::Error| Error::io(folder.path_of(name).display(), error);
    let token = NodeToken {
        token: random_token().map_err(|error| Error::io("/dev/urandom", error))?,
        since: Since::now().as_str().to_owned(),
    };
    let content = Content {
        version: VERSION,
        node: node.to_owned(),
        value: String::from_utf8(token.to_value()).expect("JSON is UTF-8"),
        registered: false,
    };
    let json = serde_json::to_vec(&content).expect("texts are JSON");
    // Lost by a power failure, the node would be taken for another one of its name.
    folder.replace_durably(name, &json).map_err(failed)?;
    Ok(content)
}

/// 128 bits that no other node has.
fn random_token() -> io::Result<String> {
    let mut bits = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bits)?;
    let mut text = String::with_capacity(32);
    for byte in bits {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
