//! Notes a restore in the status of all pools, so that a claim learns of it from its pool.
//!
//! Whoever writes a mark writes the restore of the cluster, and then its UID into the status of all
//! pools. A claim reads its pool after it has created its address:
//!
//! - Without a note, no restore has stopped claims before, unless the pool is newer than the
//!   restore. So a node that has not seen the pool before reads the restore of the cluster as well.
//! - With a note, the claim reads the restore of the cluster: the note alone stops nothing.
//!
//! The next import, or `ipamctl collect-nodes`, removes the notes, so that claims save a request
//! again. Nodes have no right to do so.

use cluster::{EngineError, Kind as Failure};
use serde_json::{Value, json};

use super::{Engine, unable};
use crate::objects::path;
use crate::view::Verified;
use crate::{Item, Replaced, Resource};

/// Key of a pool's status: the UID of the restore of the cluster.
pub(crate) const RESTORE: &str = "restore";

/// Most times that a note is written again, because a request fails or others change the pool.
const MOST_TRIES: u32 = 5;

impl Engine<'_> {
    /// Notes this restore of the cluster in all pools. After an error, other nodes may go on
    /// giving addresses of some pools.
    pub(super) fn note_in_pools(&mut self, restore: &Item) -> Result<(), EngineError> {
        let mut noted = Ok(());
        for pool in self.labelled(Resource::Pool, None, false)? {
            // While this restore exists, nobody removes its note.
            if pool.status[RESTORE] != restore.uid.as_str() {
                noted = noted.and(self.note_in(&pool, restore));
            }
        }
        noted.map_err(|error| EngineError {
            msg: format!(
                "{}; nodes may still give addresses: run this again",
                error.msg
            ),
            ..error
        })
    }

    fn note_in(&mut self, pool: &Item, restore: &Item) -> Result<(), EngineError> {
        let patch = json!({
            "metadata": {"name": pool.name},
            "status": {RESTORE: restore.uid},
        });
        for _ in 0..MOST_TRIES {
            match self.client.merge_status(Resource::Pool, &patch) {
                Ok(Replaced::Done(item)) if item.status[RESTORE] == restore.uid.as_str() => {
                    return Ok(());
                }
                Ok(Replaced::Done(_)) => {
                    return Err(unable(format!(
                        "{} doesn't keep status.restore: apply the custom resource definitions of this version",
                        path(Resource::Pool, &pool.name)
                    )));
                }
                // A pool that was deleted meanwhile gives nothing.
                Ok(Replaced::Missing) => return Ok(()),
                Ok(Replaced::Changed) => {}
                Err(error) if error.kind == Failure::Lost => {}
                Err(error) => return Err(error),
            }
        }
        Err(unable(format!(
            "{} is changed by others all the time, or no answer arrives",
            path(Resource::Pool, &pool.name)
        )))
    }

    /// True if a restore stops claims from this pool.
    pub(super) fn is_stopped_by(&mut self, pool: &Item) -> Result<bool, EngineError> {
        if !pool.status[RESTORE].is_null() {
            return self.is_restored();
        }
        let spec = pool.spec_id();
        let verify = |engine: &mut Self| Ok(!engine.is_restored()?);
        let is_noted = self.verify_once(Verified::BeforeRestores, (&pool.name, &spec), verify)?;
        Ok(!is_noted)
    }

    /// Removes the notes, if the restore of the cluster is gone. A note that stays costs each claim
    /// a request.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn remove_notes(&mut self) -> Result<(), EngineError> {
        let pools = self.labelled(Resource::Pool, None, false)?;
        let noted: Vec<Item> = pools
            .into_iter()
            .filter(|pool| !pool.status[RESTORE].is_null())
            .collect();
        // Whoever writes a restore after this writes other notes, and changes the revision.
        if noted.is_empty() || self.is_restored()? {
            return Ok(());
        }
        for pool in noted {
            let patch = json!({
                "metadata": {"name": pool.name, "resourceVersion": pool.revision.to_string()},
                "status": {RESTORE: Value::Null},
            });
            self.client.merge_status(Resource::Pool, &patch)?;
        }
        Ok(())
    }
}
