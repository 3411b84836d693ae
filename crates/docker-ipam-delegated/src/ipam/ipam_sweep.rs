//! Releases what Docker has lost, and repeats failed releases.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::docker::engine::Engine;
use crate::http::refusal::message;
use crate::ipam::held::{Held, Phase};
use crate::ipam::ipam_driver::IpamDriver;
use crate::threads::lock;

/// What Docker may have lost.
pub(crate) type Candidates = Vec<(Arc<Held>, IpAddr)>;

impl IpamDriver {
    /// What Docker has had for at least this long, or has left.
    pub(crate) fn candidates(&self, age: Duration) -> Candidates {
        let given = self.held.in_phase(Phase::Given).into_iter();
        let old = given.filter(|(held, _)| held.is_older_than(age));
        let left = self.held.in_phase(Phase::Left);
        let all = old.chain(left);
        all.filter_map(|(held, ip)| Some((held, ip?))).collect()
    }

    /// Releases those of them that Docker's answer doesn't name.
    pub(crate) fn sweep(self: &Arc<Self>, candidates: &Candidates, docker: &Engine) {
        for (held, ip) in candidates {
            let subnet = held.pool.id.subnet;
            if docker.has_lost(held.purpose, subnet, *ip) && self.held.abandon(&held.id) {
                let purpose = held.purpose;
                tracing::warn!(%ip, %subnet, ?purpose, "released: Docker doesn't have it");
            }
        }
        self.repeat_releases();
    }

    /// Tries unfinished and failed releases again, in a thread for each pool: no pool waits for
    /// another's.
    pub(crate) fn repeat_releases(self: &Arc<Self>) {
        let mut pools: BTreeMap<String, Vec<Arc<Held>>> = BTreeMap::new();
        for (held, _) in self.held.in_phase(Phase::Unreleased) {
            pools.entry(held.pool.text.clone()).or_default().push(held);
        }
        for (pool, all) in pools {
            if !lock(&self.busy).insert(pool.clone()) {
                continue;
            }
            let driver = Arc::clone(self);
            thread::spawn(move || {
                for held in all {
                    if let Err(error) = driver.release(&held) {
                        let id = held.id.as_str();
                        tracing::warn!(id, error = message(&error), "can't be released now");
                    }
                }
                lock(&driver.busy).remove(&pool);
            });
        }
    }
}
