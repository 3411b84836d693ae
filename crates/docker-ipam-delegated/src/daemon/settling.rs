//! Settles one thing by Docker's answer: it is kept, or left to be released.

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held, Verdict, judge};
use crate::ipam::given::{GivenAddress, GivenReference, Holder, Use};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::waiting_releases::Release;
use crate::lock::lock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::NetworkDriver;
use crate::state::network::Network;

impl IpamDriver {
    pub(crate) fn settle_address(&self, address: &GivenAddress, docker: &Engine) {
        let GivenAddress {
            pool: id,
            subnet,
            ip,
            used: Use { holder, is_sure },
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

    pub(crate) fn settle_pool(&self, reference: &GivenReference, docker: &Engine) {
        let GivenReference { pool, subnet, file } = reference;
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
