//! Docker's calls for addresses of a pool.

use std::net::IpAddr;
use std::sync::Arc;

use cni::ContainerId;

use crate::http::answer::{Answer, NOTHING, json};
use crate::http::body;
use crate::http::call::Call;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::chain_config;
use crate::ipam::chains::address_in;
use crate::ipam::facts;
use crate::ipam::gateway;
use crate::ipam::ipam_bodies;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::{AddressFile, LivePool};
use crate::ipam::requests;
use crate::ipam::waiting_releases::Release;
use crate::state::journal::Journal;
use crate::state::memory::ATTACHMENT;
use crate::state::pool::Address;

impl IpamDriver {
    /// `RequestAddress`.
    ///
    /// # Errors
    ///
    /// The request is wrong, the address is somebody's, or the pool has none left.
    pub(crate) fn request_address(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: ipam_bodies::RequestAddress = body::decode(&call.body)?;
        let pool = self.pool(&request.pool_id)?;
        self.refuse_unread_addresses()?;
        let requested = requests::address(&request.address, pool.pool.subnet)?;
        let had = self.state.gateway(&pool.id);
        let gateway = gateway_of(&pool, had);
        if facts::is_for_gateway(&request.options) {
            let is_fixed = had.is_some() || !pool.pool.is_given;
            let wanted = requested.unwrap_or(gateway);
            if wanted == gateway || !is_fixed {
                if self.state.is_held(&pool.id, wanted) {
                    return Err(impossible(format!(
                        "{wanted} is another container's, of pool {}",
                        pool.id
                    )));
                }
                // One that Docker has had stays: it asks again when it starts.
                if had != Some(wanted) {
                    gateway::refuse_gateway(&pool.pool, wanted)?;
                }
                return self.give_gateway(&pool, wanted);
            }
        }
        self.give(&pool, requested, gateway, &request.options)
    }

    /// Gives an address out of the chain.
    fn give(
        self: &Arc<Self>,
        pool: &Arc<LivePool>,
        requested: Option<IpAddr>,
        gateway: IpAddr,
        options: &ipam_bodies::Options,
    ) -> Result<Answer, Refusal> {
        let config = chain_config::of_address(&pool.pool, requested, Some(gateway))?;
        let name = self.memory.addresses.new_name();
        let container_id: ContainerId = format!("{ATTACHMENT}{name}")
            .parse()
            .map_err(|_| impossible(&name))?;
        let mut address = Address {
            pool: pool.id.clone(),
            ip: None,
            container_id: Some(container_id.clone()),
        };
        let folder = self.memory.addresses.folder();
        let mut journal = Journal::begin(folder, &name, address.clone())
            .map_err(|error| cant_remember(&error))?;
        let args = facts::cni_args(&pool.pool.facts, options);
        let file = AddressFile {
            name,
            container_id: Some(container_id.clone()),
            is_sure: true,
        };
        let release = |ip| Release {
            pool: Arc::clone(pool),
            ip,
            file: file.clone(),
        };
        let result = self.chains.add(pool, &config, &container_id, &args);
        let result = result.map_err(|error| {
            self.undo_failed_add(release(None));
            of_pool(&pool.id, &error.into())
        })?;
        let ip =
            address_in(&result, pool.pool.subnet).filter(|ip| requested.is_none_or(|it| it == *ip));
        let ip = ip.ok_or_else(|| {
            self.release_with_file(release(None));
            impossible(format!("pool {}: the chain gave no address of it", pool.id))
        })?;
        let mut holders = self.state.holders(&pool.id, ip).into_iter();
        if let Some(holder) = holders.find(|id| self.chains.may_have_record(pool, id)) {
            self.release_with_file(release(Some(ip)));
            return Err(impossible(format!(
                "pool {}: the chain gave {ip}, which {holder} has",
                pool.id
            )));
        }
        address.ip = Some(ip);
        journal.made(address).map_err(|error| {
            self.release_with_file(release(Some(ip)));
            cant_remember(&error)
        })?;
        let stale = self.state.give(pool, ip, file.clone()).map_err(|_| {
            journal.ending();
            self.release_with_file(release(Some(ip)));
            impossible(format!("pool {}: it was released meanwhile", pool.id))
        })?;
        for stale in stale {
            tracing::warn!(pool = pool.id, %ip, stale.name, "was released without Docker");
            self.memory.addresses.remove(&stale.name);
        }
        Ok(self.made_address(journal, Arc::clone(pool), ip))
    }

    /// Undoes an ADD that has failed: it may have failed to undo itself.
    fn undo_failed_add(&self, release: Release) {
        let name = release.file.name.clone();
        let container_id = release.file.container_id.as_ref();
        let is_done = container_id.is_none_or(|id| {
            self.chains.del(&release.pool, id).is_ok()
                // Such as a plugin that isn't there, in ADD and in DEL.
                || !self.chains.may_have_record(&release.pool, id)
        });
        if is_done {
            self.memory.addresses.remove(&name);
        } else {
            self.releases.put(release);
        }
    }

    /// Gives the pool's gateway, which no chain gives to anybody.
    fn give_gateway(self: &Arc<Self>, pool: &Arc<LivePool>, ip: IpAddr) -> Result<Answer, Refusal> {
        let address = Address {
            pool: pool.id.clone(),
            ip: Some(ip),
            container_id: None,
        };
        let journal = self
            .memory
            .addresses
            .make(address)
            .map_err(|error| cant_remember(&error))?;
        let file = AddressFile {
            name: journal.name().to_owned(),
            container_id: None,
            is_sure: true,
        };
        if self.state.give(pool, ip, file).is_err() {
            journal.remove();
            return Err(impossible(format!(
                "pool {}: it was released meanwhile",
                pool.id
            )));
        }
        Ok(self.made_address(journal, Arc::clone(pool), ip))
    }

    fn made_address(
        self: &Arc<Self>,
        mut journal: Journal<Address>,
        pool: Arc<LivePool>,
        ip: IpAddr,
    ) -> Answer {
        let driver = Arc::clone(self);
        Answer::then(answer_of(&pool, ip), move |is_delivered| {
            if is_delivered {
                journal.answered();
                return;
            }
            tracing::warn!(pool = pool.id, %ip, "Docker has gone before it had this address");
            let Some(file) = driver.state.take(&pool.id, ip, Some(journal.name())) else {
                return;
            };
            journal.ending();
            driver.release_with_file(Release {
                pool,
                ip: Some(ip),
                file,
            });
        })
    }

    /// `ReleaseAddress`. An unknown address has been released.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: ipam_bodies::ReleaseAddress = body::decode(&call.body)?;
        let Some(pool) = self.state.pool(&request.pool_id) else {
            tracing::warn!(
                pool = request.pool_id,
                ip = request.address,
                "released, and the pool is not known"
            );
            self.compare.notify_one();
            return Ok(Answer::plain(NOTHING));
        };
        let ip = requests::address(&request.address, pool.pool.subnet)?;
        let ip =
            ip.ok_or_else(|| impossible("Address is missing: it names what is to be released"))?;
        let Some(file) = self.state.take(&pool.id, ip, None) else {
            let waiting = self.releases.of(&pool.id, ip);
            if waiting.is_none() {
                // Its file may be one that can't be read.
                self.compare.notify_one();
            }
            let released = waiting.map_or(Ok(()), |it| self.retry(&it));
            return match released {
                Ok(()) => Ok(Answer::plain(NOTHING)),
                Err(why) => Err(of_pool(&pool.id, &why)),
            };
        };
        let name = file.name.clone();
        self.memory.addresses.note_ending::<Address>(&name);
        let release = Release {
            pool: Arc::clone(&pool),
            ip: Some(ip),
            file,
        };
        self.release(release)
            .map_err(|why| of_pool(&pool.id, &why))?;
        self.memory.addresses.remove(&name);
        Ok(Answer::plain(NOTHING))
    }
}

/// The gateway that Docker has of a pool, or else the chain's.
fn gateway_of(pool: &LivePool, had: Option<IpAddr>) -> IpAddr {
    had.filter(|_| pool.pool.is_given)
        .unwrap_or(pool.pool.gateway)
}

fn answer_of(pool: &LivePool, ip: IpAddr) -> String {
    json(&ipam_bodies::Address {
        address: format!("{ip}/{}", pool.pool.subnet.prefix_len()),
        data: ipam_bodies::Options::new(),
    })
}

fn of_pool(id: &str, why: &Refusal) -> Refusal {
    impossible(format!("pool {id}: {why}"))
}
