//! Docker's calls for addresses of a pool.

use std::net::IpAddr;
use std::sync::Arc;

use cni::{ContainerId, IpConfig, IpamResult};

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::chains::address_in;
use crate::ipam::gateway::refuse_gateway;
use crate::ipam::given::Holder;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::LivePool;
use crate::ipam::waiting_releases::Release;
use crate::ipam::{chain_config, facts, ipam_bodies, requests};
use crate::state::pool::Gateway;

impl IpamDriver {
    /// `RequestAddress`.
    ///
    /// # Errors
    ///
    /// The request is wrong, the address is somebody's, or the pool has none left.
    pub(crate) fn request_address(
        self: &Arc<Self>,
        request: &ipam_bodies::RequestAddress,
    ) -> Result<Answer, Refusal> {
        let pool = self.pool(&request.pool_id)?;
        self.refuse_unread_gateways()?;
        let requested = requests::address(&request.address, pool.pool.subnet)?;
        let had = self.pools.gateway(&pool.id);
        // The gateway that Docker has of a pool, or else the chain's.
        let gateway = had.filter(|_| pool.pool.is_given);
        let gateway = gateway.unwrap_or(pool.pool.gateway);
        if facts::is_for_gateway(&request.options) {
            let is_fixed = had.is_some() || !pool.pool.is_given;
            let wanted = requested.unwrap_or(gateway);
            if wanted == gateway || !is_fixed {
                return self.give_gateway(pool, wanted, had);
            }
        }
        self.give_address(pool, requested, gateway, &request.options)
    }

    /// Gives an address that the pool's chain chooses.
    fn give_address(
        self: &Arc<Self>,
        pool: Arc<LivePool>,
        requested: Option<IpAddr>,
        gateway: IpAddr,
        options: &ipam_bodies::Options,
    ) -> Result<Answer, Refusal> {
        let config = chain_config::of_address(&pool.pool, requested, Some(gateway))?;
        let id = self.ids.next();
        let id: ContainerId = id.parse().map_err(|_| impossible(id))?;
        let args = facts::cni_args(&pool.pool.facts, options);
        let result = self.chains.add(&pool, &config, &id, &args);
        let given = result
            .map_err(Refusal::from)
            .and_then(|result| self.note_address(&pool, requested, &id, &result));
        let ip = given.map_err(|why| {
            self.undo(&pool, None, &id);
            impossible(format!("pool {}: {why}", pool.id))
        })?;
        let (driver, answer) = (Arc::clone(self), answer_of(&pool, ip));
        Ok(answer.then(move |is_delivered| {
            if is_delivered {
                driver.chains.note_answered(&pool, &id);
                return;
            }
            tracing::warn!(pool = pool.id, %ip, "Docker has gone before it had this address");
            let holder = Holder::Attachment(id.clone());
            if driver.pools.take(&pool.id, ip, Some(&holder)).is_some() {
                driver.undo(&pool, Some(ip), &id);
            }
        }))
    }

    /// Notes that Docker has the address of a chain's result.
    ///
    /// # Errors
    ///
    /// It is not of the pool, or another's, or the pool has ended.
    fn note_address(
        &self,
        pool: &Arc<LivePool>,
        requested: Option<IpAddr>,
        id: &ContainerId,
        result: &IpamResult,
    ) -> Result<IpAddr, Refusal> {
        let ips = result.ips.iter().map(IpConfig::ip);
        let ip = address_in(ips, pool.pool.subnet);
        let ip = ip.filter(|ip| requested.is_none_or(|requested| requested == *ip));
        let ip = ip.ok_or_else(|| impossible("the chain gave no address of it"))?;
        let mut holders = self.pools.attachments(&pool.id, ip).into_iter();
        if let Some(holder) = holders.find(|holder| self.chains.may_have_record(pool, holder)) {
            return Err(impossible(format!(
                "the chain gave {ip}, which {holder} has"
            )));
        }
        let given = self.pools.give(pool, ip, Holder::Attachment(id.clone()));
        given.map_err(|_| impossible("it was released meanwhile"))?;
        Ok(ip)
    }

    /// Releases what the attachment of a call that has failed may hold: it has a record then.
    fn undo(&self, pool: &Arc<LivePool>, ip: Option<IpAddr>, id: &ContainerId) {
        if self.chains.may_have_record(pool, id) {
            // It is tried again if it fails.
            let _ = self.release(Release {
                pool: Arc::clone(pool),
                ip,
                container_id: id.clone(),
            });
        }
    }

    /// Gives the pool's gateway, which no chain gives to anybody.
    fn give_gateway(
        self: &Arc<Self>,
        pool: Arc<LivePool>,
        ip: IpAddr,
        had: Option<IpAddr>,
    ) -> Result<Answer, Refusal> {
        if !self.pools.attachments(&pool.id, ip).is_empty() {
            return Err(impossible(format!(
                "{ip} is another container's, of pool {}",
                pool.id
            )));
        }
        // One that Docker has had stays: it asks again when it starts.
        if had != Some(ip) {
            refuse_gateway(&pool.pool, ip)?;
        }
        let gateway = Gateway {
            pool: pool.id.clone(),
            ip,
        };
        let files = &self.files.gateways;
        let file = files
            .make(&gateway)
            .map_err(|error| cant_remember(&error))?;
        let holder = Holder::Gateway(file.clone());
        if self.pools.give(&pool, ip, holder.clone()).is_err() {
            files.remove(&file);
            let why = format!("pool {}: it was released meanwhile", pool.id);
            return Err(impossible(why));
        }
        let (driver, answer) = (Arc::clone(self), answer_of(&pool, ip));
        Ok(answer.then(move |is_delivered| {
            let files = &driver.files.gateways;
            if is_delivered {
                files.note_answered(&file);
                return;
            }
            tracing::warn!(pool = pool.id, %ip, "Docker has gone before it had this gateway");
            if driver.pools.take(&pool.id, ip, Some(&holder)).is_some() {
                files.remove(&file);
            }
        }))
    }

    /// `ReleaseAddress`. An unknown address has been released.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(
        &self,
        request: &ipam_bodies::ReleaseAddress,
    ) -> Result<Answer, Refusal> {
        let Some(pool) = self.pools.pool(&request.pool_id) else {
            tracing::warn!(
                pool = request.pool_id,
                ip = request.address,
                "released, and the pool is not known"
            );
            self.compare.notify_one();
            return Ok(Answer::nothing());
        };
        let ip = requests::address(&request.address, pool.pool.subnet)?;
        let ip =
            ip.ok_or_else(|| impossible("Address is missing: it names what is to be released"))?;
        let released = match self.pools.take(&pool.id, ip, None) {
            Some(Holder::Gateway(file)) => {
                self.files.gateways.remove(&file);
                Ok(())
            }
            Some(Holder::Attachment(container_id)) => self.release(Release {
                pool: Arc::clone(&pool),
                ip: Some(ip),
                container_id,
            }),
            None => match self.releases.of(&pool.id, ip) {
                Some(waiting) => self.retry(&waiting),
                None => {
                    // Its record may be one that can't be read.
                    self.compare.notify_one();
                    Ok(())
                }
            },
        };
        released.map_err(|why| impossible(format!("pool {}: {why}", pool.id)))?;
        Ok(Answer::nothing())
    }
}

fn answer_of(pool: &LivePool, ip: IpAddr) -> Answer {
    Answer::of(&ipam_bodies::Address {
        address: format!("{ip}/{}", pool.pool.subnet.prefix_len()),
        data: ipam_bodies::Options::new(),
    })
}
