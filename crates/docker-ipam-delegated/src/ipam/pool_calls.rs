//! Docker's calls for pools.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::held::Held;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pool::{Dropped, LivePool};
use crate::ipam::requests::{PoolRequest, ReleasePool, RequestPool};
use crate::state::files::{Stage, UNWRITTEN};
use crate::state::pool::Pool;
use crate::threads::lock;

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or there is no such pool.
    pub(crate) fn request_pool(self: &Arc<Self>, request: RequestPool) -> Result<Answer> {
        let request = PoolRequest::read(request)?;
        self.refuse_unread(&self.files.pools.path)?;
        let chosen = self.choose(&request)?;
        let _one_at_a_time = lock(&self.adding);
        let live = self.pools.live();
        let others: Vec<&Pool> = live.iter().map(|live| &live.pool).collect();
        let mut pool = self.place(chosen, &request, &others)?;
        if let Some(same) = others.iter().find(|other| other.id() == pool.id()) {
            ensure!(
                same.facts == pool.facts,
                "{}: another network has this pool with other options: {:?}, not {:?}",
                pool.id(),
                same.facts,
                pool.facts
            );
            pool = (*same).clone();
        }
        let pool = LivePool::new(pool)?;
        let (id, subnet) = (&pool.id, pool.pool.subnet);
        let answer = Answer::of(&json!({"PoolID": id, "Pool": subnet, "Data": {}}));
        let file = self.files.pools.make(&pool.pool).context(UNWRITTEN)?;
        let pool = self.pools.refer(pool, &file, true);
        let driver = Arc::clone(self);
        Ok(answer.then(move |is_delivered| {
            if is_delivered {
                return driver.files.pools.note(&file, Stage::Answered);
            }
            tracing::warn!(
                pool = pool.id,
                "Docker closed the connection before it got this pool"
            );
            let releases = driver.drop_reference(&pool, Some(&file));
            drop(pool);
            // A failed release is repeated.
            let _ = driver.release_all(releases.unwrap_or_default());
        }))
    }

    /// `ReleasePool`. With the last reference, all addresses of the pool are released.
    /// An unknown pool counts as released, and so does an unknown reference.
    ///
    /// # Errors
    ///
    /// An address can't be released now. The pool has ended nevertheless: Docker only logs
    /// the error, and has forgotten the network.
    pub(crate) fn release_pool(&self, request: &ReleasePool) -> Result<Answer> {
        let id = &request.pool_id;
        let pool = self.pools.pool(id);
        let reference = request.reference.as_deref();
        match pool.and_then(|pool| self.drop_reference(&pool, reference)) {
            Some(releases) => self.release_all(releases)?,
            None => {
                tracing::warn!(pool = id, "Docker released a pool that is not known");
                self.compare();
            }
        }
        Ok(Answer::nothing())
    }

    /// Drops a reference. The pool ends with its last one: then the release of its addresses
    /// begins, and they are returned for the caller to release.
    pub(crate) fn drop_reference(
        &self,
        pool: &Arc<LivePool>,
        file: Option<&str>,
    ) -> Option<Vec<Held>> {
        let note = |file: &str| self.files.pools.note(file, Stage::Ending);
        let Dropped { files, ended } = pool.drop_reference(file, note)?;
        for file in files {
            self.files.pools.remove(&file);
        }
        Some(ended)
    }

    fn release_all(&self, releases: Vec<Held>) -> Result<()> {
        let mut failed = Vec::new();
        for held in releases {
            let ip = held.ip.map(|ip| ip.to_string());
            let ip = ip.unwrap_or_else(|| "an address".to_owned());
            if let Err(error) = self.release(held) {
                failed.push(format!("{ip}: {}", message(&error)));
            }
        }
        self.remove_ended_pools();
        let failed = failed.join("; ");
        ensure!(failed.is_empty(), "released later: {failed}");
        Ok(())
    }
}
