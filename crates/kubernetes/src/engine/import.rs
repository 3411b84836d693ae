//! Import of pools. Meanwhile, no address or block is given.
//!
//! A restore named `import` is created first. So an address that is created later is given back,
//! and one that was created earlier is seen by the verification. Of two concurrent imports, one is
//! refused. If this process is killed, the restore stays and nothing is given, until a person
//! deletes it and imports again.

use cluster::{Change, Condition, EngineError, Group, Kind as Failure};
use serde_json::Value;

use super::guards::Own;
use super::{Engine, unable};
use crate::names::{IMPORT, object_of};
use crate::objects::{object, path, restore};
use crate::{Created, Deleted, Item, Replaced};
use crate::{Resource, objects::Pod};

impl Engine<'_> {
    /// Writes pools, if the conditions hold; false if one doesn't.
    pub(super) fn import(&mut self, change: &Change) -> Result<bool, EngineError> {
        let created = self
            .client
            .create(Resource::Restore, &restore(IMPORT), false)?;
        let Created::Done(mark) = created else {
            return Err(self.refuse_import()?);
        };
        let stopped = self.renew_any_restore();
        let stopped = stopped.and_then(|restore| self.note_in_pools(&restore));
        // No pool is written yet, so the mark needn't stay.
        let stopped = stopped.map_err(|error| unable(error.msg));
        let done = stopped.and_then(|()| self.import_alone(change));
        if matches!(&done, Err(error) if error.may_have_changed()) {
            // The mark stays, because some of the pools may be written.
            return done;
        }
        let ended = self.end_import(&mark);
        match (done, ended) {
            (Ok(_), Err(error)) => {
                let msg = format!(
                    "{}; if {} exists and no other import runs, nothing is given: delete it, and run the same import again",
                    error.msg,
                    path(Resource::Restore, IMPORT),
                );
                Err(EngineError::new(Failure::Lost, msg))
            }
            (done, _) => done,
        }
    }

    fn refuse_import(&mut self) -> Result<EngineError, EngineError> {
        let item = self.client.get(Resource::Restore, IMPORT)?;
        let by = item.map_or_else(String::new, |item| item.spec.to_string());
        Ok(unable(format!(
            "another import goes on, or was interrupted: {by}; if it doesn't run any more: kubectl delete {}, and run this import again",
            path(Resource::Restore, IMPORT)
        )))
    }

    /// Deletes the mark of this import only.
    fn end_import(&mut self, mark: &Item) -> Result<(), EngineError> {
        let limit = self.client.time;
        self.client.time.finish();
        let deleted = self
            .client
            .delete(Resource::Restore, IMPORT, Some(&mark.uid), None);
        let ended = match deleted {
            Ok(Deleted::Done) => self.sweep_or_leave().map(|()| {
                if let Err(error) = self.remove_notes() {
                    tracing::warn!(%error, "each ADD makes one more request until the next import");
                }
            }),
            // Addresses may have been given meanwhile.
            Ok(Deleted::Missing | Deleted::Changed) => Err(unable(
                "the mark of this import was deleted by others while it ran",
            )),
            Err(error) => Err(error),
        };
        self.client.time = limit;
        ended
    }

    fn import_alone(&mut self, change: &Change) -> Result<bool, EngineError> {
        for condition in &change.conditions {
            let holds = match condition {
                Condition::Empty(Group::Marks) => {
                    self.marks()?.iter().all(|mark| Self::is_import(&mark.key))
                }
                other => self.hold(&[other], &Own::default())?,
            };
            if !holds {
                return Ok(false);
            }
        }
        let mut pools = Vec::new();
        for (key, value) in &change.write {
            let Some((_, name)) = object_of(key) else {
                continue;
            };
            let object = object(key, value, &Pod::default());
            let object = object.ok_or_else(|| unable(format!("{name}: it is no JSON object")))?;
            pools.push((self.client.get(Resource::Pool, &name)?, object));
        }
        // With the dry run, the API server refuses an invalid pool before any pool is written.
        for dry_run in [true, false] {
            for (old, new) in &mut pools {
                if !self.write_pool(old.as_ref(), new, dry_run)? {
                    let failure = if dry_run {
                        Failure::Unable
                    } else {
                        Failure::Lost
                    };
                    let msg = "a pool was changed by others during the import";
                    return Err(EngineError::new(failure, msg));
                }
            }
        }
        Ok(true)
    }

    fn write_pool(
        &mut self,
        old: Option<&Item>,
        new: &mut Value,
        dry_run: bool,
    ) -> Result<bool, EngineError> {
        let Some(old) = old else {
            let created = self.client.create(Resource::Pool, new, dry_run)?;
            return Ok(matches!(created, Created::Done(_)));
        };
        old.keep_metadata_in(new);
        let replaced = self.client.replace(Resource::Pool, new, dry_run)?;
        Ok(matches!(replaced, Replaced::Done(_)))
    }
}
