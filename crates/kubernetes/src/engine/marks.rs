//! Restores: while one exists, nothing new is given.
//!
//! One object tells whether there are marks: the restore named `cluster`. It is written with a new
//! revision after each mark. It is deleted only in the revision that it had before all marks were
//! found to be missing. So it exists while any mark does. See also [`super::restore_notes`].

use std::thread::sleep;
use std::time::Duration;

use cluster::{Change, Condition, EngineError, Key, Kind as Failure, Stored};

use super::attachments::TAKING_OVER;
use super::{Engine, unable};
use crate::Resource;
use crate::names::{ANY_RESTORE, object_of};
use crate::node_objects::{NODE_MISSING, annotate};
use crate::objects::{restore, stored};
use crate::{Created, Item, Replaced};

/// Most times that the restore of the cluster is written again, because others write it.
const MOST_TRIES: u32 = 50;

/// Most attempts to delete the restore of the cluster.
const MOST_SWEEPS: u32 = 10;

/// Annotation of a registration: identifies the last restore that has ended on the node.
const RECONCILED: &str = "ipam-delegated.io/reconciled";

/// Time until the API server's policies see a change.
const POLICY: Duration = Duration::from_millis(200);

impl Engine<'_> {
    /// True if nothing new may be given.
    pub(super) fn is_restored(&mut self) -> Result<bool, EngineError> {
        Ok(self.any_restore()?.is_some())
    }

    fn any_restore(&mut self) -> Result<Option<Item>, EngineError> {
        self.client.get(Resource::Restore, ANY_RESTORE)
    }

    /// All marks.
    pub(super) fn marks(&mut self) -> Result<Vec<Stored>, EngineError> {
        let items = self.labelled(Resource::Restore, None, false)?;
        let marks = items.iter().filter(|item| item.name != ANY_RESTORE);
        Ok(marks.map(|item| stored(Resource::Restore, item)).collect())
    }

    /// Writes marks; false if a mark exists that must be missing.
    pub(super) fn write_marks(&mut self, change: &Change) -> Result<bool, EngineError> {
        for (key, _) in &change.write {
            let Some((kind, name)) = object_of(key) else {
                continue;
            };
            let must_be_missing = change.conditions.contains(&Condition::Missing(key.clone()));
            let created = self.client.create(kind, &restore(&name), false)?;
            // The node's index is of another state. The other marks name no node.
            if let Key::Mark(node) = key
                && !node.starts_with('.')
            {
                self.begin_taking_over(node)?;
            }
            if created == Created::Exists && must_be_missing {
                // The process that wrote the mark may have been killed before it wrote the rest.
                let restore = self.renew_any_restore()?;
                return self.note_in_pools(&restore).map(|()| false);
            }
        }
        let restore = self.renew_any_restore()?;
        self.note_in_pools(&restore).map(|()| true)
    }

    /// Writes the restore of the cluster with a new revision.
    pub(super) fn renew_any_restore(&mut self) -> Result<Item, EngineError> {
        let mut before = None;
        for _ in 0..MOST_TRIES {
            let mut object = restore(ANY_RESTORE);
            match self.any_restore()? {
                // Another process has renewed it since.
                Some(item) if before.is_some_and(|before| before != item.revision) => {
                    return Ok(item);
                }
                None => {
                    let created = self.client.create(Resource::Restore, &object, false)?;
                    if let Created::Done(restore) = created {
                        return Ok(*restore);
                    }
                }
                Some(item) => {
                    before = Some(item.revision);
                    item.keep_metadata_in(&mut object);
                    let replaced = self.client.replace(Resource::Restore, &object, false)?;
                    if let Replaced::Done(restore) = replaced {
                        return Ok(*restore);
                    }
                }
            }
        }
        Err(unable(
            "the restore of the cluster is changed by others all the time",
        ))
    }

    /// Ends a restore on this node, before its mark is deleted: what it has verified before doesn't
    /// count any more, and neither does an older note that its Node is missing.
    pub(super) fn end_restore_here(&mut self) -> Result<(), EngineError> {
        let id = format!("{:032x}", fastrand::u128(..));
        annotate(&mut self.client, self.node, |all| {
            all.remove(NODE_MISSING);
            all.remove(TAKING_OVER);
            all.insert(RECONCILED.to_owned(), id.clone());
        })
    }

    /// Identifies the registration of this node, and the last restore that has ended on it. What
    /// was verified with another one may have been so in a state that a restore has undone. Empty
    /// without a node: then nothing is noted.
    pub(super) fn last_restore(&mut self) -> Result<String, EngineError> {
        if self.last_restore.is_none() && !self.node.is_empty() {
            let registration = self.client.get(Resource::IpamNode, self.node)?;
            self.note_last_restore(registration.as_ref());
        }
        Ok(self.last_restore.clone().unwrap_or_default())
    }

    pub(super) fn note_last_restore(&mut self, registration: Option<&Item>) {
        let id = |item: &Item| {
            let restore = item.annotations.get(RECONCILED);
            format!("{}/{}", item.uid, restore.map_or("", String::as_str))
        };
        self.last_restore = Some(registration.map_or_else(String::new, id));
    }

    /// Deletes the restore of the cluster, if no mark exists any more.
    pub(super) fn sweep(&mut self) -> Result<(), EngineError> {
        let Some(Item { uid, revision, .. }) = self.any_restore()? else {
            return Ok(());
        };
        if !self.marks()?.is_empty() {
            return Ok(());
        }
        for tried in 1.. {
            // If a mark was written meanwhile, the revision differs.
            let deleted =
                self.client
                    .delete(Resource::Restore, ANY_RESTORE, Some(&uid), Some(revision));
            match deleted {
                // The API server's policy may still see a mark that is already deleted.
                Err(error) if error.kind == Failure::Refused && tried < MOST_SWEEPS => {
                    sleep(POLICY.min(self.client.time.remaining()));
                }
                other => return other.map(|_| ()),
            }
        }
        Ok(())
    }

    /// As [`Self::sweep`], if the API server does it now and says so: for up to 30 seconds after its
    /// start, it may not know the policy's parameters (kubernetes/kubernetes#124237). Otherwise the
    /// next ADD sweeps.
    pub(super) fn sweep_or_leave(&mut self) -> Result<(), EngineError> {
        match self.sweep() {
            Err(error) if matches!(error.kind, Failure::Unreachable | Failure::Lost) => {
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
