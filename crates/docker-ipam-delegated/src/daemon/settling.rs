//! What follows for one thing from Docker's answer: it is kept, or left to the releases.

use std::net::IpAddr;

use ipam::IpNet;

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held, Verdict, judge};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::AddressFile;
use crate::ipam::waiting_releases::Release;
use crate::lock::lock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::NetworkDriver;
use crate::state::endpoint::Endpoint;
use crate::state::journal::Journal;
use crate::state::network::Network;
use crate::state::pool::{Address, Reference};

/// An address, or a gateway, that Docker may have.
pub(crate) struct KeptAddress {
    /// The ID of its pool: a pool that has ended must not be held.
    pool: String,
    subnet: IpNet,
    ip: IpAddr,
    file: AddressFile,
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
        let all = self.state.addresses().into_iter();
        let kept = all.map(|(pool, ip, file)| KeptAddress {
            pool: pool.id.clone(),
            subnet: pool.pool.subnet,
            ip,
            file,
        });
        kept.collect()
    }

    /// The references to all pools.
    pub(crate) fn kept_pools(&self) -> Vec<KeptPool> {
        let all = self.state.references().into_iter();
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
            file,
        } = address;
        let held = match file.container_id {
            Some(_) => Held::Address(*subnet, *ip),
            None => Held::Gateway(*subnet, *ip),
        };
        match judge(held, docker) {
            Verdict::InUse(_) if file.is_sure => {}
            Verdict::InUse(user) => {
                tracing::info!(pool = id, %ip, user.network, user.container, "Docker has it");
                // If it has been released meanwhile, there is no file.
                let folder = self.memory.addresses.folder();
                if let Ok(mut journal) = Journal::<Address>::open(folder, &file.name) {
                    journal.answered();
                }
                self.state.make_sure(id, *ip, &file.name);
            }
            Verdict::Unknown(why) => tracing::debug!(pool = id, %ip, why, "kept"),
            Verdict::Lost => {
                let Some(pool) = self.state.pool(id) else {
                    return;
                };
                let Some(file) = self.state.take(id, *ip, Some(&file.name)) else {
                    return;
                };
                tracing::warn!(pool = id, %ip, "released: Docker doesn't have it");
                self.memory.addresses.note_ending::<Address>(&file.name);
                let ip = Some(*ip);
                self.releases.put(Release { pool, ip, file });
            }
        }
    }

    pub(crate) fn settle_pool(&self, kept: &KeptPool, docker: &Engine) {
        let KeptPool { pool, subnet, file } = kept;
        if judge(Held::Pool(*subnet), docker) != Verdict::Lost {
            return;
        }
        let dropped = self.state.drop_reference(pool, Some(file), |file| {
            self.memory.pools.note_ending::<Reference>(file);
        });
        let Some(dropped) = dropped else {
            return;
        };
        tracing::warn!(pool, "released: Docker doesn't have it");
        match dropped.ended {
            Some(ended) => self.end_pool_later(ended, file),
            None => self.memory.pools.remove(file),
        }
    }
}

impl NetworkDriver {
    /// False if it can't be settled now: a call, or the collection of stale endpoints, works on
    /// it.
    pub(crate) fn settle_endpoint(&self, live: &LiveEndpoint, docker: &Engine) -> bool {
        let id = &live.endpoint.id;
        let verdict = judge(Held::Endpoint(id), docker);
        let Ok(_call) = live.calls.try_lock() else {
            return verdict != Verdict::Lost;
        };
        let Some(now) = self.endpoints.get(id).filter(|it| it.file == live.file) else {
            return true;
        };
        match verdict {
            Verdict::InUse(user) if now.is_unanswered => {
                tracing::info!(endpoint = id, user.network, user.container, "Docker has it");
                let folder = self.endpoint_files().folder();
                if let Ok(mut journal) = Journal::<Endpoint>::open(folder, &live.file) {
                    journal.answered();
                }
                self.endpoints.change(id, |it| it.is_unanswered = false);
            }
            Verdict::InUse(_) | Verdict::Unknown(_) => {}
            Verdict::Lost => {
                tracing::warn!(endpoint = id, "undone: Docker doesn't have it");
                self.endpoints.change(id, |it| it.is_abandoned = true);
            }
        }
        true
    }

    /// Forgets a network that Docker doesn't have. It holds nothing itself.
    pub(crate) fn settle_network(&self, network: &Network, docker: &Engine) {
        let id = &network.id;
        if judge(Held::Network(id), docker) == Verdict::Lost
            && let Some(network) = lock(&self.networks).remove(id)
        {
            tracing::warn!(network = id, "forgotten: Docker doesn't have it");
            self.memory.networks.remove(&network.file);
        }
    }
}
