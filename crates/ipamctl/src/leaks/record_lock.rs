//! Tells whether a process holds the lock of an attachment, and which one.

use crate::node::NetworkAttachment;
use std::fs::File;
use std::path::Path;

/// The lock of an attachment's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// No process holds it.
    Free,
    /// These processes hold it: a call, or a process that a call has started and left. Empty if
    /// they can't be seen from here.
    Held(Vec<String>),
    /// The lock can't be asked for, for this reason.
    Unknown(String),
}

impl Lock {
    /// The lock of this attachment; one without a record has none.
    pub(crate) fn of(attachment: &NetworkAttachment<'_>) -> Self {
        let Some(record) = attachment.record else {
            return Self::Free;
        };
        let file = &record.file;
        match chain::record::is_locked(file) {
            Ok(false) => Self::Free,
            Ok(true) => Self::Held(holders(file)),
            Err(error) => Self::Unknown(format!("{}: {error}", file.display())),
        }
    }

    /// The reason to leave the attachment alone; `None` if the lock is free.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Free => None,
            Self::Held(holders) if holders.is_empty() => {
                Some("its lock is held by a process that can't be seen from here".to_owned())
            }
            Self::Held(holders) => Some(format!("its lock is held by {}", holders.join(", "))),
            Self::Unknown(reason) => Some(format!("whether its lock is held is unknown: {reason}")),
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
