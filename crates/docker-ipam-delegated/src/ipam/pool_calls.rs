//! Docker's calls for pools.

use std::sync::Arc;

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::held::{Held, LivePool};
use crate::ipam::ipam_bodies::{self, ReleasePool};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::Dropped;
use crate::ipam::requests::PoolRequest;
use crate::lock::lock;
use crate::state::files::Line;
use crate::state::pool::Pool;

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or nothing has such a pool.
    pub(crate) fn request_pool(
        self: &Arc<Self>,
        request: ipam_bodies::RequestPool,
    ) -> Result<Answer, Refusal> {
        let request = PoolRequest::read(request)?;
        self.refuse_unread(&self.files.pools.path)?;
        let chosen = self.choice.choose(&request, &self.chains)?;
        let _one_at_a_time = lock(&self.adding);
        let live = self.pools.all();
        let others: Vec<&Pool> = live.iter().map(|live| &live.pool).collect();
        let mut pool = self.choice.place(chosen, &request, &others)?;
        if let Some(same) = others.iter().find(|other| other.id() == pool.id()) {
            if same.facts != pool.facts {
                return Err(impossible(format!(
                    "{}: another network has this pool with other options: {:?}, not {:?}",
                    pool.id(),
                    same.facts,
                    pool.facts
                )));
            }
            pool = (*same).clone();
        }
        let answer = Answer::of(&ipam_bodies::Pool {
            pool_id: pool.id(),
            pool: pool.subnet.to_string(),
            data: ipam_bodies::Options::new(),
        });
        let files = &self.files.pools;
        let pool = LivePool::new(pool)?;
        let file = files
            .make(&pool.pool)
            .map_err(|error| cant_remember(&error))?;
        let pool = self.pools.refer(pool, &file, true);
        let driver = Arc::clone(self);
        Ok(answer.then(move |is_delivered| {
            if is_delivered {
                return driver.files.pools.note(&file, &Line::Answered);
            }
            tracing::warn!(pool = pool.id, "Docker has gone before it had this pool");
            let releases = driver.drop_reference(&pool.id, Some(&file));
            drop(pool);
            // What can't be released is tried again.
            let _ = driver.release_all(releases.unwrap_or_default());
        }))
    }

    /// `ReleasePool`. With the last reference, all addresses of the pool are released.
    /// An unknown pool has been released, and so has an unknown reference.
    ///
    /// # Errors
    ///
    /// An address can't be released now. The pool has ended nevertheless: Docker only logs
    /// the error, and has forgotten the network.
    pub(crate) fn release_pool(&self, request: &ReleasePool) -> Result<Answer, Refusal> {
        let id = &request.pool_id;
        match self.drop_reference(id, request.reference.as_deref()) {
            Some(releases) => self.release_all(releases)?,
            None => {
                tracing::warn!(pool = id, "released, and not known");
                self.compare();
            }
        }
        Ok(Answer::nothing())
    }

    /// Takes a reference away, and with the last one ends its pool; returns the releases of what
    /// is left of the pool, which have begun.
    pub(crate) fn drop_reference(&self, id: &str, file: Option<&str>) -> Option<Vec<Held>> {
        let note = |file: &str| self.files.pools.note(file, &Line::Ending);
        let Dropped { files, ended } = self.pools.drop_reference(id, file, note)?;
        for file in files {
            self.files.pools.remove(&file);
        }
        Some(ended)
    }

    fn release_all(&self, releases: Vec<Held>) -> Result<(), Refusal> {
        let mut failed = Vec::new();
        for held in releases {
            let ip = held
                .ip
                .map_or_else(|| "an address".to_owned(), |ip| ip.to_string());
            if let Err(why) = self.release(held) {
                failed.push(format!("{ip}: {why}"));
            }
        }
        self.remove_ended_pools();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(impossible(format!("released later: {}", failed.join("; ")))),
        }
    }
}
