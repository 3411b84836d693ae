//! Restores: while there is one, nothing new is given.
//!
//! A claim looks for one object alone, the restore named `cluster`. It is written after each
//! mark, with a new revision, and deleted only with the revision that it had before all marks were
//! found to be gone. So it exists as long as any mark does.

use std::thread::sleep;
use std::time::Duration;

use cluster::{Change, Condition, EngineError, Key, Kind as Failure, Stored};

use super::{Engine, unable};
use crate::Resource;
use crate::names::{ANY_RESTORE, object_of};
use crate::objects::{restore, stored};
use crate::{Created, Item, Replaced};

/// Times that the restore of the cluster is written again, because others write it.
const MOST_TRIES: u32 = 50;

/// Times that the deletion of the restore of the cluster is tried.
const MOST_SWEEPS: u32 = 10;

/// Time in which the API server's policies see what has changed.
const POLICY: Duration = Duration::from_millis(200);

impl Engine<'_> {
    /// True if nothing new is to be given.
    pub(super) fn is_restored(&mut self) -> Result<bool, EngineError> {
        Ok(self.client.get(Resource::Restore, ANY_RESTORE)?.is_some())
    }

    /// All marks.
    pub(super) fn marks(&mut self) -> Result<Vec<Stored>, EngineError> {
        let items = self.labelled(Resource::Restore, None, false)?;
        let marks = items.iter().filter(|item| item.name != ANY_RESTORE);
        Ok(marks.map(|item| stored(Resource::Restore, item)).collect())
    }

    /// Writes marks; false if one exists that must be missing.
    pub(super) fn write_marks(&mut self, change: &Change) -> Result<bool, EngineError> {
        for (key, _) in &change.write {
            let Some((kind, name)) = object_of(key) else {
                continue;
            };
            let must_be_missing = change.conditions.contains(&Condition::Missing(key.clone()));
            if self.client.create(kind, &restore(&name), false)? == Created::Exists
                && must_be_missing
            {
                // Whoever has written the mark may have been killed before it wrote that of the
                // cluster.
                if !self.is_restored()? {
                    self.renew_any_restore()?;
                }
                return Ok(false);
            }
        }
        self.renew_any_restore().map(|()| true)
    }

    /// Writes the restore of the cluster with a new revision.
    pub(super) fn renew_any_restore(&mut self) -> Result<(), EngineError> {
        for _ in 0..MOST_TRIES {
            let mut object = restore(ANY_RESTORE);
            let is_written = match self.client.get(Resource::Restore, ANY_RESTORE)? {
                None => matches!(
                    self.client.create(Resource::Restore, &object, false)?,
                    Created::Done(_)
                ),
                Some(item) => {
                    object["metadata"]["resourceVersion"] = item.revision.to_string().into();
                    matches!(
                        self.client.replace(Resource::Restore, &object, false)?,
                        Replaced::Done(_)
                    )
                }
            };
            if is_written {
                return Ok(());
            }
        }
        Err(unable(
            "the restore of the cluster is changed by others all the time",
        ))
    }

    /// Deletes the restore of the cluster, if there is no mark any more.
    pub(super) fn sweep(&mut self) -> Result<(), EngineError> {
        let Some(Item { uid, revision, .. }) = self.client.get(Resource::Restore, ANY_RESTORE)?
        else {
            return Ok(());
        };
        if !self.marks()?.is_empty() {
            return Ok(());
        }
        for tried in 1.. {
            // A mark that was written meanwhile has given it another revision.
            let deleted =
                self.client
                    .delete(Resource::Restore, ANY_RESTORE, Some(&uid), Some(revision));
            match deleted {
                // The API server's policy still sees a mark that is deleted already.
                Err(error) if error.kind == Failure::Refused && tried < MOST_SWEEPS => {
                    sleep(POLICY.min(self.client.time.remaining()));
                }
                other => return other.map(|_| ()),
            }
        }
        Ok(())
    }

    /// As [`Self::sweep`], if the API server does it now: for up to 30 seconds after its start, it
    /// may not know the policy's parameters (kubernetes/kubernetes#124237). Otherwise the next ADD
    /// sweeps.
    pub(super) fn sweep_or_leave(&mut self) -> Result<(), EngineError> {
        match self.sweep() {
            Err(error) if error.kind == Failure::Unreachable => {
                tracing::warn!(%error, "nothing new is given yet");
                Ok(())
            }
            other => other,
        }
    }

    /// True if the key is the mark of an import that goes on, or was interrupted.
    pub(super) fn is_import(key: &Key) -> bool {
        matches!(key, Key::Mark(node) if node == ".import")
    }
}
