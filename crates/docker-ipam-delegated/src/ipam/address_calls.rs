//! Docker's calls for addresses of a pool.

use std::net::IpAddr;
use std::sync::Arc;

use cni::{ContainerId, IpConfig, IpamResult};

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::chains::address_in;
use crate::ipam::gateway::refuse_gateway;
use crate::ipam::held::{Held, Holder, LivePool};
use crate::ipam::ipam_bodies::{Address, Options, ReleaseAddress, RequestAddress};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::{chain_config, facts, requests};
use crate::state::pool::Gateway;

impl IpamDriver {
    /// `RequestAddress`.
    ///
    /// # Errors
    ///
    /// The request is wrong, the address is somebody's, or the pool has none left.
    pub(crate) fn request_address(
        self: &Arc<Self>,
        request: &RequestAddress,
    ) -> Result<Answer, Refusal> {
        let pool = self.pool(&request.pool_id)?;
        self.refuse_unread(&self.files.gateways.path)?;
        let requested = requests::address(&request.address, pool.pool.subnet)?;
        let had = self.pools.gateway(&pool);
        // The gateway that Docker has of a pool, or else the chain's.
        let gateway = had.filter(|_| pool.pool.is_given);
        let gateway = gateway.unwrap_or(pool.pool.gateway);
        let wanted = requested.unwrap_or(gateway);
        let is_fixed = had.is_some() || !pool.pool.is_given;
        let is_gateway =
            facts::is_for_gateway(&request.options) && (wanted == gateway || !is_fixed);
        let (ip, holder) = match is_gateway {
            true => (wanted, self.gateway(&pool, wanted, had)?),
            false => self.address(&pool, requested, gateway, &request.options)?,
        };
        let address = Address {
            address: format!("{ip}/{}", pool.pool.subnet.prefix_len()),
            data: Options::new(),
        };
        let (driver, ip) = (Arc::clone(self), Some(ip));
        let held = Held { pool, ip, holder };
        Ok(Answer::of(&address).then(move |is_delivered| {
            if !is_delivered && driver.pools.begin_release_of(&held) {
                tracing::warn!(
                    pool = held.pool.id,
                    ?ip,
                    "Docker has gone before it had this address"
                );
                // It is tried again if it fails.
                let _ = driver.release(held);
            }
        }))
    }

    /// An address that the pool's chain chooses, and its holder.
    fn address(
        &self,
        pool: &Arc<LivePool>,
        requested: Option<IpAddr>,
        gateway: IpAddr,
        options: &Options,
    ) -> Result<(IpAddr, Holder), Refusal> {
        let config = chain_config::of_address(&pool.pool, requested, Some(gateway))?;
        let id = self.ids.next();
        let id: ContainerId = id.parse().map_err(|_| impossible(id))?;
        let args = facts::cni_args(&pool.pool.facts, options);
        let result = self.chains.add(pool, &config, &id, &args);
        let held = Held {
            pool: Arc::clone(pool),
            ip: None,
            holder: Holder::Attachment(id.clone()),
        };
        let given = result.map_err(Refusal::from);
        let given = given.and_then(|result| self.give(&held, requested, &result));
        let ip = given.map_err(|why| {
            // It may hold something only if it has a record.
            if self.chains.may_have_record(pool, &id) {
                // It is tried again if it fails.
                let _ = self.release(held.clone());
            }
            impossible(format!("pool {}: {why}", pool.id))
        })?;
        Ok((ip, held.holder))
    }

    /// Notes that Docker has the address of a chain's result.
    ///
    /// # Errors
    ///
    /// It is not of the pool, or another's, or the pool has ended.
    fn give(
        &self,
        held: &Held,
        requested: Option<IpAddr>,
        result: &IpamResult,
    ) -> Result<IpAddr, Refusal> {
        let pool = &held.pool;
        let ips = result.ips.iter().map(IpConfig::ip);
        let ip = address_in(ips, pool.pool.subnet);
        let ip = ip.filter(|ip| requested.is_none_or(|requested| requested == *ip));
        let ip = ip.ok_or_else(|| impossible("the chain gave no address of it"))?;
        let mut holders = self.pools.attachments(pool, ip).into_iter();
        if let Some(holder) = holders.find(|holder| self.chains.may_have_record(pool, holder)) {
            return Err(impossible(format!(
                "the chain gave {ip}, which {holder} has"
            )));
        }
        let ip_of_held = Some(ip);
        let given = self.pools.give(&Held {
            ip: ip_of_held,
            ..held.clone()
        });
        given.map_err(|_| impossible("it was released meanwhile"))?;
        Ok(ip)
    }

    /// Gives the pool's gateway, which no chain gives to anybody; returns its holder.
    fn gateway(
        &self,
        pool: &Arc<LivePool>,
        ip: IpAddr,
        had: Option<IpAddr>,
    ) -> Result<Holder, Refusal> {
        if !self.pools.attachments(pool, ip).is_empty() {
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
        let held = Held {
            pool: Arc::clone(pool),
            ip: Some(ip),
            holder: Holder::Gateway(file.clone()),
        };
        self.pools.give(&held).map_err(|_| {
            files.remove(&file);
            impossible(format!("pool {}: it was released meanwhile", pool.id))
        })?;
        Ok(held.holder)
    }

    /// `ReleaseAddress`. An unknown address has been released.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(&self, request: &ReleaseAddress) -> Result<Answer, Refusal> {
        let Some(pool) = self.pools.pool(&request.pool_id) else {
            tracing::warn!(
                pool = request.pool_id,
                ip = request.address,
                "released, and the pool is not known"
            );
            self.compare();
            return Ok(Answer::nothing());
        };
        let ip = requests::address(&request.address, pool.pool.subnet)?;
        let ip =
            ip.ok_or_else(|| impossible("Address is missing: it names what is to be released"))?;
        match self.pools.begin_release(&pool.id, ip) {
            Some(held) => self
                .release(held)
                .map_err(|why| impossible(format!("pool {}: {why}", pool.id)))?,
            // Its record may be one that can't be read.
            None => self.compare(),
        }
        Ok(Answer::nothing())
    }
}
