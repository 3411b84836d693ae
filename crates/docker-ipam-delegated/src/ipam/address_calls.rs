//! Docker's calls for addresses of a pool.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use cni::{ContainerId, IpConfig, IpamResult};
use serde_json::json;

use crate::http::answer::Answer;
use crate::ipam::held::{Held, Holder};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pool::LivePool;
use crate::ipam::requests::{OfAddress, Options, refuse_gateway};
use crate::ipam::{chain_config, facts, requests};
use crate::state::files::UNWRITTEN;
use crate::state::pool::Gateway;

impl IpamDriver {
    /// `RequestAddress`.
    ///
    /// # Errors
    ///
    /// The request is wrong, the address is taken, or the pool has no free address.
    pub(crate) fn request_address(self: &Arc<Self>, request: &OfAddress) -> Result<Answer> {
        let pool = self.pool(&request.pool_id)?;
        self.refuse_unread(&self.files.gateways.path)?;
        let requested = requests::address(&request.address, pool.pool.subnet)?;
        let had = pool.gateway();
        // The gateway that Docker has, if the chain is told the subnet; else the chain's.
        let gateway = had.filter(|_| pool.pool.is_given);
        let gateway = gateway.unwrap_or(pool.pool.gateway);
        let wanted = requested.unwrap_or(gateway);
        let is_fixed = had.is_some() || !pool.pool.is_given;
        let is_gateway =
            facts::is_for_gateway(&request.options) && (wanted == gateway || !is_fixed);
        let (ip, holder) = match is_gateway {
            true => (wanted, self.gateway(&pool, wanted, had)?),
            false => {
                let given = self.address(&pool, requested, gateway, &request.options);
                given.with_context(|| format!("pool {}", pool.id))?
            }
        };
        let address = format!("{ip}/{}", pool.pool.subnet.prefix_len());
        let (driver, ip) = (Arc::clone(self), Some(ip));
        let held = Held { pool, ip, holder };
        let answer = Answer::of(&json!({"Address": address, "Data": {}}));
        Ok(answer.then(move |is_delivered| {
            if !is_delivered && held.begin_release() {
                tracing::warn!(
                    pool = held.pool.id,
                    ?ip,
                    "Docker closed the connection before it got this address"
                );
                // A failed release is repeated.
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
    ) -> Result<(IpAddr, Holder)> {
        let config = chain_config::of_address(&pool.pool, requested, Some(gateway))?;
        let id: ContainerId = self.ids.next().parse()?;
        let args = facts::cni_args(&pool.pool.facts, facts::mac(options));
        let result = self.chains.add(pool, &config, &id, &args);
        let mut held = Held {
            pool: Arc::clone(pool),
            ip: None,
            holder: Holder::Attachment(id),
        };
        let given = result.map_err(Into::into);
        match given.and_then(|result| self.give(&mut held, requested, &result)) {
            Ok(ip) => Ok((ip, held.holder)),
            Err(error) => {
                // The attachment can hold something only if it has a record.
                let id = held.holder.container_id();
                if id.is_some_and(|id| self.chains.may_have_record(pool, id)) {
                    // A failed release is repeated.
                    let _ = self.release(held);
                }
                Err(error)
            }
        }
    }

    /// Notes that Docker has the address of a chain's result.
    ///
    /// # Errors
    ///
    /// The address is not of the pool, another attachment has it, or the pool has ended.
    fn give(
        &self,
        held: &mut Held,
        requested: Option<IpAddr>,
        result: &IpamResult,
    ) -> Result<IpAddr> {
        let pool = &held.pool;
        let mut ips = result.ips.iter().map(IpConfig::ip);
        let ip = ips.find(|ip| pool.pool.subnet.contains(ip));
        let ip = ip.filter(|ip| requested.is_none_or(|requested| requested == *ip));
        let ip = ip.context("the chain gave no address of it")?;
        let mut holders = pool.attachments(ip).into_iter();
        if let Some(holder) = holders.find(|holder| self.chains.may_have_record(pool, holder)) {
            bail!("the chain gave {ip}, which {holder} has");
        }
        held.ip = Some(ip);
        held.give()?;
        Ok(ip)
    }

    /// Gives Docker the pool's gateway, which the chain gives to no container; returns its holder.
    fn gateway(&self, pool: &Arc<LivePool>, ip: IpAddr, had: Option<IpAddr>) -> Result<Holder> {
        ensure!(
            pool.attachments(ip).is_empty(),
            "{ip} of pool {} belongs to another container",
            pool.id
        );
        // A gateway that Docker has already is not refused: Docker asks for it at each start.
        if had != Some(ip) {
            refuse_gateway(&pool.pool, ip)?;
        }
        let gateway = Gateway {
            pool: pool.id.clone(),
            ip,
        };
        let files = &self.files.gateways;
        let file = files.make(&gateway).context(UNWRITTEN)?;
        let held = Held {
            pool: Arc::clone(pool),
            ip: Some(ip),
            holder: Holder::Gateway(file.clone()),
        };
        let given = held.give().inspect_err(|_| files.remove(&file));
        given.with_context(|| format!("pool {}", pool.id))?;
        Ok(held.holder)
    }

    /// `ReleaseAddress`. An unknown address counts as released.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(&self, request: &OfAddress) -> Result<Answer> {
        let Some(pool) = self.pools.pool(&request.pool_id) else {
            let (pool, ip) = (&request.pool_id, &request.address);
            tracing::warn!(pool, ip, "Docker released an address of an unknown pool");
            self.compare();
            return Ok(Answer::nothing());
        };
        let ip = requests::address(&request.address, pool.pool.subnet)?;
        let ip = ip.context("Address is missing: it names what is to be released")?;
        match pool.begin_release(ip) {
            Some(held) => {
                let released = self.release(held);
                released.with_context(|| format!("pool {}", pool.id))?;
            }
            // The address is unknown. It may have a record that can't be read.
            None => self.compare(),
        }
        Ok(Answer::nothing())
    }
}
