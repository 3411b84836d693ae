//! The file with the node's token: the proof that this disk has registered the node's name.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

use cni::Error;
use serde::{Deserialize, Serialize};

use super::state_file::StateFile;
use crate::Node;

/// Version of the file.
const VERSION: u32 = 2;

/// Most values that the file keeps.
const MOST_KEPT: usize = 32;

/// The file's content.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    node: String,
    token: String,
    /// The last values that this disk has sent. After a restore, the engine may have an older one
    /// of them.
    #[serde(rename = "confirmed")]
    sent: Vec<String>,
}

/// The file. It survives a boot.
#[derive(Debug)]
pub(crate) struct TokenFile {
    file: StateFile,
    node: String,
}

/// The file's content, while its folder is locked.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    disk: &'a TokenFile,
    content: Content,
}

impl TokenFile {
    pub(crate) fn open(node: &Node) -> Result<Self, Error> {
        Ok(Self {
            file: StateFile::open(&node.state_dir, node.file_name("token"))?,
            node: node.name.clone(),
        })
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> String {
        self.file.path()
    }

    /// The token; `None` if the disk has none.
    pub(crate) fn token(&self) -> Result<Option<String>, Error> {
        Ok(self.read()?.map(|content| content.token))
    }

    /// True if the file is of the node of this name, with this token.
    pub(crate) fn is_of(&self, name: &str, token: &str) -> Result<bool, Error> {
        let content = self.read()?;
        Ok(content.is_some_and(|content| content.node == name && content.token == token))
    }

    fn read(&self) -> Result<Option<Content>, Error> {
        let Some(bytes) = self.file.read()? else {
            return Ok(None);
        };
        let failed = |why: String| self.file.failed(why);
        let content: Content = serde_json::from_slice(&bytes)
            .map_err(|error| failed(format!("it is no token: {error}")))?;
        if content.version != VERSION {
            let version = content.version;
            return Err(failed(format!(
                "it is of version {version}, of a later release than this"
            )));
        }
        if content.token.is_empty() {
            return Err(failed("it has no token".to_owned()));
        }
        Ok(Some(content))
    }

    /// Runs `f` while no other process registers; `None` if another one does for longer than
    /// `at_most`.
    pub(crate) fn locked<T>(
        &self,
        at_most: Duration,
        f: impl FnOnce(&mut Known<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.file.locked(at_most, || {
            let content = match self.read()? {
                Some(content) => content,
                None => Content {
                    version: VERSION,
                    node: self.node.clone(),
                    token: random()?,
                    sent: Vec::new(),
                },
            };
            let disk = self;
            f(&mut Known { disk, content })
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
        let mut sent = self.content.sent.iter();
        sent.any(|known| known.as_bytes() == value)
    }

    /// Writes a value to the disk before it is sent, so that the disk knows it as its own in any
    /// case. If there are too many values, the oldest is dropped, but never the one that the
    /// engine has.
    pub(crate) fn sends(&mut self, value: &str, in_engine: Option<&[u8]>) -> Result<(), Error> {
        let sent = &mut self.content.sent;
        if sent.len() >= MOST_KEPT
            && let Some(oldest) = sent
                .iter()
                .position(|old| Some(old.as_bytes()) != in_engine)
        {
            sent.remove(oldest);
        }
        sent.push(value.to_owned());
        let json = serde_json::to_vec(&self.content).expect("texts are JSON");
        // Written durably: if a power failure removed it, the node's own registration would look
        // like another machine's.
        self.disk.file.replace_durably(&json)
    }
}

/// 128 random bits.
///
/// # Errors
///
/// Code 5.
pub(crate) fn random() -> Result<String, Error> {
    let mut bits = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bits))
        .map_err(|error| Error::io("/dev/urandom", error))?;
    let mut text = String::with_capacity(32);
    for byte in bits {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(folder: &std::path::Path) -> Node {
        Node {
            name: "n1".to_owned(),
            is_named: true,
            state_dir: folder.to_owned(),
            cache_dir: folder.to_owned(),
            prefix: "/ipam".to_owned(),
            endpoints: Vec::new(),
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn the_engines_value_is_kept_however_many_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let disk = TokenFile::open(&node(folder.path())).unwrap();
        for i in 0..3 * MOST_KEPT {
            let sends = |known: &mut Known<'_>| known.sends(&i.to_string(), Some(b"0"));
            disk.locked(Duration::ZERO, sends).unwrap().unwrap();
        }
        let content = disk.read().unwrap().unwrap();
        assert_eq!(content.sent.len(), MOST_KEPT);
        assert_eq!(content.sent[0], "0");
    }

    #[test]
    fn no_two_random_texts_are_equal() {
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
