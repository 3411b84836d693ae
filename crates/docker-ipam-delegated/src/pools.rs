//! Docker's calls for pools.

use std::sync::{Arc, PoisonError};

use crate::answer::Answer;
use crate::ipam_driver::{IpamDriver, NOTHING, cant_remember, json, remove};
use crate::journal::{Call, Journal};
use crate::pool::{Pool, Reference};
use crate::refusal::{Refusal, impossible};
use crate::requests::PoolRequest;
use crate::state::{LivePool, lock};
use crate::wire;

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or nothing has such a pool.
    pub(crate) fn request_pool(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request = PoolRequest::read(wire::decode(&call.body)?)?;
        let _one_at_a_time = lock(&self.pool_calls);
        let live = self.state.pools();
        let others: Vec<&Pool> = live.iter().map(|it| &it.pool).collect();
        let mut pool = self.choice.choose(&request, &self.chains, &others)?;
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
        let answer = json(&wire::Pool {
            pool_id: pool.id(),
            pool: pool.subnet.to_string(),
            data: wire::Options::new(),
        });
        let name = self.memory.pools.new_name();
        let reference = Reference { pool: pool.clone() };
        let folder = self.memory.pools.folder();
        let mut journal = Journal::begin(folder, &name, call, reference.clone())
            .map_err(|error| cant_remember(&error))?;
        if let Err(error) = journal.made(reference, &answer) {
            journal.remove();
            return Err(cant_remember(&error));
        }
        let id = self.state.refer(pool, &name).id.clone();
        Ok(self.made_pool(answer, journal, id))
    }

    pub(crate) fn made_pool(
        self: &Arc<Self>,
        answer: String,
        mut journal: Journal<Reference>,
        id: String,
    ) -> Answer {
        let driver = Arc::clone(self);
        Answer::then(answer, move |is_delivered| {
            if is_delivered {
                journal.answered();
            } else {
                tracing::warn!(pool = id, "Docker has gone before it had this pool");
                driver.undo_pool(&id, journal.name());
            }
        })
    }

    fn undo_pool(&self, id: &str, name: &str) {
        let _one_at_a_time = lock(&self.pool_calls);
        let Some(pool) = self.state.pool(id) else {
            return;
        };
        if pool.take_reference(Some(name)).is_some() {
            self.unanswered.forget(name);
            remove(&self.memory.pools, name);
            self.state.remove_unreferenced(id);
        }
    }

    /// `ReleasePool`. With the last reference, all addresses of the pool are released.
    /// An unknown pool has been released.
    ///
    /// # Errors
    ///
    /// An address can't be released.
    pub(crate) fn release_pool(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: wire::ReleasePool = wire::decode(&call.body)?;
        let _one_at_a_time = lock(&self.pool_calls);
        let Some(pool) = self.state.pool(&request.pool_id) else {
            tracing::warn!(pool = request.pool_id, "released, and not known");
            return Ok(Answer::plain(NOTHING));
        };
        let _no_requests = pool
            .requests
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(name) = pool.take_reference(None) else {
            return Ok(Answer::plain(NOTHING));
        };
        let journal = self.end_pool(&pool, name, call)?;
        Ok(Answer::then(NOTHING, move |_| journal.remove()))
    }

    pub(crate) fn end_pool(
        &self,
        pool: &Arc<LivePool>,
        name: String,
        call: &Call,
    ) -> Result<Journal<Reference>, Refusal> {
        let opened = Journal::open(self.memory.pools.folder(), &name)
            .and_then(|mut journal| journal.ending(call).map(|()| journal));
        let mut journal = match opened {
            Ok(journal) => journal,
            Err(error) => {
                pool.put_reference(name);
                return Err(cant_remember(&error));
            }
        };
        if pool.references() == 0 {
            let mut failed = Vec::new();
            for (ip, held) in pool.take_all() {
                if let Err(why) = self.release(pool, &held) {
                    failed.push(format!("{ip}: {why}"));
                    pool.put(ip, held);
                } else {
                    remove(&self.memory.addresses, &held.name);
                }
            }
            if !failed.is_empty() {
                pool.put_reference(name);
                return Err(impossible(failed.join("; ")));
            }
        }
        self.unanswered.forget(&name);
        self.state.remove_unreferenced(&pool.id);
        journal.ended();
        Ok(journal)
    }
}
