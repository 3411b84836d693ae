//! The lock of an attachment, and the processes that hold it.

use std::fs::File;
use std::path::Path;

use serde::Serialize;

use crate::node::NetworkAttachment;

/// The lock of an attachment's record.
/// The keys are documented.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Lock {
    /// True if a process holds it; `None` if that is unknown.
    #[serde(rename = "locked")]
    pub(crate) is_held: Option<bool>,
    /// The processes that hold it: a call, or a process that a call has left behind. Empty if they
    /// are in another PID namespace.
    #[serde(rename = "lockedBy")]
    pub(crate) holders: Vec<String>,
    /// The reason not to release the attachment; `None` if the lock is free.
    #[serde(skip)]
    pub(crate) reason: Option<String>,
}

impl Lock {
    /// The lock of this attachment; without a record, a free one.
    pub(crate) fn of(attachment: &NetworkAttachment<'_>) -> Self {
        let file = attachment.record.map(|record| record.file.as_path());
        let is_held = file.map_or(Ok(false), chain::record::is_locked);
        let holders = match (file, &is_held) {
            (Some(file), Ok(true)) => holders(file),
            _ => Vec::new(),
        };
        let reason = match &is_held {
            Ok(false) => None,
            Ok(true) if holders.is_empty() => {
                Some("its lock is held by a process that can't be seen from here".to_owned())
            }
            Ok(true) => Some(format!("its lock is held by {}", holders.join(", "))),
            Err(error) => {
                let file = file.unwrap_or(Path::new("")).display();
                Some(format!(
                    "whether its lock is held is unknown: {file}: {error}"
                ))
            }
        };
        Self {
            is_held: is_held.ok(),
            holders,
            reason,
        }
    }
}

/// The processes that hold a lock on this file, for messages: `process 4711 (sleep)`.
fn holders(file: &Path) -> Vec<String> {
    let holders = File::open(file).and_then(|file| chain::lock_holders(&file));
    let holders = holders.into_iter().flatten();
    holders
        .map(|process| format!("process {process}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let file = File::create(&path).unwrap();
        assert!(holders(&path).is_empty());
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let found = holders(&path);
        let own = format!("process {} (", std::process::id());
        assert!(found.len() == 1 && found[0].starts_with(&own), "{found:?}");
    }
}
