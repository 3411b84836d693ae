//! Settles one thing by Docker's answer: it is kept, or left to be released.

use std::net::IpAddr;

use ipam::IpNet;

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held, Verdict, judge};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::{Holder, Use};
use crate::ipam::waiting_releases::Release;
use crate::lock::lock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::NetworkDriver;
use crate::state::network::Network;

/// An address, or a gateway, that Docker may have.
pub(crate) struct KeptAddress {
    /// The ID of its pool: a pool that has ended must not be held.
    pool: String,
    subnet: IpNet,
    ip: IpAddr,
    kept: Use,
}

/// A reference to a pool that Docker may have.
pub(crate) struct KeptPool {
    /// The ID.
    pool: String,
    subnet: IpNet,
    file: String,
}

impl IpamDriver {
    /// The addresses and gateways of all pools.
    pub(crate) fn kept_addresses(&self) -> Vec<KeptAddress> {
        let all = self.pools.addresses().into_iter();
        let kept = all.map(|(pool, ip, kept)| KeptAddress {
            pool: pool.id.clone(),
            subnet: pool.pool.subnet,
            ip,
            kept,
        });
        kept.collect()
    }

    /// The references to all pools.
    pub(crate) fn kept_pools(&self) -> Vec<KeptPool> {
        let all = self.pools.references().into_iter();
        let kept = all.map(|(pool, file)| KeptPool {
            pool: pool.id.clone(),
            subnet: pool.pool.subnet,
            file,
        });
        kept.collect()
    }

    pub(crate) fn settle_address(&self, address: &KeptAddress, docker: &Engine) {
        let KeptAddress {
            pool: id,
            subnet,
            ip,
            kept: Use { holder, is_sure },
        } = address;
        let held = match holder {
            Holder::Attachment(_) => Held::Address(*subnet, *ip),
            Holder::Gateway(_) => Held::Gateway(*subnet, *ip),
        };
        match judge(held, docker) {
            Verdict::InUse(_) if *is_sure => {}
            Verdict::InUse(user) => {
                tracing::info!(pool = id, %ip, user.network, user.container, "Docker has it");
                let pool = self.pools.pool(id);
                match (holder, pool) {
                    (Holder::Gateway(file), _) => self.files.gateways.note_answered(file),
                    (Holder::Attachment(container_id), Some(pool)) => {
                        self.chains.note_answered(&pool, container_id);
                    }
                    // It has ended meanwhile.
                    (Holder::Attachment(_), None) => {}
                }
                self.pools.make_sure(id, *ip, holder);
            }
            Verdict::Unknown(why) => tracing::debug!(pool = id, %ip, why, "kept"),
            Verdict::Lost => {
                let Some(pool) = self.pools.pool(id) else {
                    return;
                };
                let Some(holder) = self.pools.take(id, *ip, Some(holder)) else {
                    return;
                };
                tracing::warn!(pool = id, %ip, "released: Docker doesn't have it");
                match holder {
                    Holder::Gateway(file) => self.files.gateways.remove(&file),
                    Holder::Attachment(container_id) => self.releases.put(Release {
                        pool,
                        ip: Some(*ip),
                        container_id,
                    }),
                }
            }
        }
    }

    pub(crate) fn settle_pool(&self, kept: &KeptPool, docker: &Engine) {
        let KeptPool { pool, subnet, file } = kept;
        if judge(Held::Pool(*subnet), docker) != Verdict::Lost {
            return;
        }
        let note = |file: &str| self.files.pools.note_ending(file);
        if let Some(dropped) = self.pools.drop_reference(pool, Some(file), note) {
            tracing::warn!(pool, "released: Docker doesn't have it");
            self.end_reference_later(dropped);
        }
    }
}

impl NetworkDriver {
    /// False if it can't be settled now: a call, or the collection of stale endpoints, works on
    /// it.
    pub(crate) fn settle_endpoint(&self, live: &LiveEndpoint, docker: &Engine) -> bool {
        let id = live.id();
        let verdict = judge(Held::Endpoint(id), docker);
        let Ok(_call) = live.calls.try_lock() else {
            return verdict != Verdict::Lost;
        };
        let Some(now) = self.endpoints.same(live) else {
            return true;
        };
        match verdict {
            Verdict::InUse(user) if now.is_unanswered => {
                tracing::info!(endpoint = id, user.network, user.container, "Docker has it");
                self.note_answered(&now);
                self.endpoints.change(id, |live| live.is_unanswered = false);
            }
            Verdict::InUse(_) | Verdict::Unknown(_) => {}
            Verdict::Lost => {
                tracing::warn!(endpoint = id, "undone: Docker doesn't have it");
                self.endpoints.change(id, |live| live.is_abandoned = true);
            }
        }
        true
    }

    /// Forgets a network that Docker doesn't have. It holds nothing itself.
    pub(crate) fn settle_network(&self, network: &Network, docker: &Engine) {
        let id = &network.id;
        if judge(Held::Network(id), docker) == Verdict::Lost
            && let Some((file, _)) = lock(&self.networks).remove(id)
        {
            tracing::warn!(network = id, "forgotten: Docker doesn't have it");
            self.files.networks.remove(&file);
        }
    }
}
