//! Docker's calls for pools.

use std::sync::Arc;

use crate::http::answer::{Answer, NOTHING, json};
use crate::http::body;
use crate::http::call::Call;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::ipam_bodies;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::Ended;
use crate::ipam::requests::PoolRequest;
use crate::ipam::waiting_releases::Release;
use crate::lock::lock;
use crate::state::pool::{Address, Pool, Reference};

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or nothing has such a pool.
    pub(crate) fn request_pool(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request = PoolRequest::read(body::decode(&call.body)?)?;
        self.refuse_unread_pools()?;
        let chosen = self.choice.choose(&request, &self.chains)?;
        let _one_at_a_time = lock(&self.adding);
        let live = self.state.pools();
        let others: Vec<&Pool> = live.iter().map(|it| &it.pool).collect();
        let mut pool = self.choice.place(chosen, &request, &others)?;
        if let Some(same) = others.iter().find(|it| it.id() == pool.id()) {
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
        let answer = json(&ipam_bodies::Pool {
            pool_id: pool.id(),
            pool: pool.subnet.to_string(),
            data: ipam_bodies::Options::new(),
        });
        let reference = Reference { pool: pool.clone() };
        let mut journal = self
            .memory
            .pools
            .make(reference)
            .map_err(|error| cant_remember(&error))?;
        let pool = self.state.refer(pool, journal.name(), true);
        let driver = Arc::clone(self);
        Ok(Answer::then(answer, move |is_delivered| {
            if is_delivered {
                journal.answered();
            } else {
                tracing::warn!(pool = pool.id, "Docker has gone before it had this pool");
                driver.undo_pool(&pool.id, journal.name());
            }
        }))
    }

    fn undo_pool(&self, id: &str, file: &str) {
        let dropped = self.state.drop_reference(id, Some(file), |_| ());
        if let Some(dropped) = dropped {
            // What can't be released is tried again, and keeps the file.
            let _ = dropped.ended.map(|ended| self.end_pool(ended, file));
            if !self.releases.has_file(file) {
                self.memory.pools.remove(file);
            }
        }
    }

    /// `ReleasePool`. With the last reference, all addresses of the pool are released.
    /// An unknown pool has been released, and so has an unknown reference.
    ///
    /// # Errors
    ///
    /// An address can't be released now. The pool has ended nevertheless: Docker only logs
    /// the error, and has forgotten the network.
    pub(crate) fn release_pool(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: ipam_bodies::ReleasePool = body::decode(&call.body)?;
        let reference = request.reference.as_deref();
        let dropped = self
            .state
            .drop_reference(&request.pool_id, reference, |file| {
                self.memory.pools.note_ending::<Reference>(file);
            });
        let Some(dropped) = dropped else {
            tracing::warn!(pool = request.pool_id, "released, and not known");
            self.compare.notify_one();
            return Ok(Answer::plain(NOTHING));
        };
        if let Some(ended) = dropped.ended {
            self.end_pool(ended, &dropped.file)?;
        }
        if !self.releases.has_file(&dropped.file) {
            self.memory.pools.remove(&dropped.file);
        }
        Ok(Answer::plain(NOTHING))
    }

    /// Releases what is left of a pool that has ended. The file of its last reference stays
    /// as long as a release waits, or a call for it runs.
    fn end_pool(&self, ended: Ended, file: &str) -> Result<(), Refusal> {
        for reference in ended.references {
            self.memory.pools.remove(&reference);
        }
        let mut failed = Vec::new();
        for (ip, address) in ended.addresses {
            let name = address.name.clone();
            let release = Release {
                pool: Arc::clone(&ended.pool),
                ip: Some(ip),
                file: address,
            };
            match self.release(release) {
                Ok(()) => self.memory.addresses.remove(&name),
                Err(why) => failed.push(format!("{ip}: {why}")),
            }
        }
        if Arc::strong_count(&ended.pool) > 1 {
            self.releases.put_ended(ended.pool, file.to_owned());
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(impossible(format!("released later: {}", failed.join("; "))))
    }

    /// Leaves what is left of a pool that has ended to the releases that wait.
    pub(crate) fn end_pool_later(&self, ended: Ended, file: &str) {
        for reference in ended.references {
            self.memory.pools.remove(&reference);
        }
        for (ip, file) in ended.addresses {
            self.memory.addresses.note_ending::<Address>(&file.name);
            let (pool, ip) = (Arc::clone(&ended.pool), Some(ip));
            self.releases.put(Release { pool, ip, file });
        }
        self.releases.put_ended(ended.pool, file.to_owned());
    }
}
