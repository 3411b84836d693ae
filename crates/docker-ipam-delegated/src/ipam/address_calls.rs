//! Docker's calls for addresses of a pool.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ipam::Interval;
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::chain_config::DIRECTORY;
use crate::ipam::held::{Held, Phase};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::pool_chain::PoolChain;
use crate::ipam::requests::{OfAddress, refuse_ends, refuse_last};
use crate::ipam::{facts, requests};
use crate::records::Purpose;

/// The longest that a request for an address that is taken waits for an answer of Docker's.
const ABOUT_ONE_ADDRESS: Duration = Duration::from_secs(2);

/// How many addresses are tried that only a file without a record reserves.
const MOST_UNKNOWN: usize = 512;

impl IpamDriver {
    /// `RequestAddress`.
    ///
    /// # Errors
    ///
    /// The request is wrong, the address is taken, or the pool has no free address.
    pub(crate) fn request_address(self: &Arc<Self>, request: &OfAddress) -> Result<Answer> {
        let pool = self.pool(&request.pool_id)?;
        let subnet = pool.id.subnet;
        let of_pool = || format!("pool {subnet}");
        let requested = requests::address(&request.address, subnet)?;
        let chain = self.chain_of(&pool).with_context(of_pool)?;
        let is_gateway = facts::is_for_gateway(&request.options);
        let requested = match requested {
            None if is_gateway => Some(chain.gateway_of(&pool)?),
            requested => requested,
        };
        if let Some(ip) = requested {
            refuse_ends(subnet, ip)?;
        }
        let (purpose, name) = if is_gateway {
            refuse_last(pool.given, pool.id.range, requested)?;
            (Purpose::Gateway, None)
        } else {
            (Purpose::Container, facts::name(&request.options))
        };
        // A gateway is its subnet's, whatever the networks of the subnet.
        let is_the_networks = |ip: &IpAddr| {
            // The chain gives its gateway to nobody.
            let is_the_chains = pool.id.conflist.is_some() && chain.gateway == Some(*ip);
            is_the_chains || self.held.share_gateway(&pool, *ip)
        };
        let (ip, held) = match requested.filter(|ip| is_gateway && is_the_networks(ip)) {
            Some(ip) => (ip, None),
            None => {
                let held = self.new_held(&pool, &chain, purpose, requested.is_some(), name);
                let ip = self.give(&held, &chain, requested).with_context(of_pool)?;
                (ip, Some(held))
            }
        };
        let address = format!("{ip}/{}", subnet.prefix_len());
        let answer = Answer::of(&json!({"Address": address, "Data": {}}));
        Ok(answer.then(self.unless_delivered(held)))
    }

    /// Releases an attachment if Docker doesn't get the answer.
    pub(crate) fn unless_delivered(
        self: &Arc<Self>,
        held: Option<Arc<Held>>,
    ) -> impl FnOnce(bool) + Send + 'static {
        let driver = Arc::clone(self);
        move |is_delivered| {
            if let Some(held) = held.filter(|_| !is_delivered) {
                let (id, subnet) = (held.id.as_str(), held.pool.id.subnet);
                tracing::warn!(id, %subnet, "Docker closed the connection before it got the answer");
                // A failed release is repeated.
                let _ = driver.release(&held);
            }
        }
    }

    /// Reserves an address for an attachment: the requested one, or one that is free.
    fn give(
        &self,
        held: &Arc<Held>,
        chain: &PoolChain,
        requested: Option<IpAddr>,
    ) -> Result<IpAddr> {
        let given = match (requested, &held.pool.id.conflist) {
            (Some(ip), _) => {
                self.begin(held, ip)?;
                self.chains.add(held, chain, Some(ip))
            }
            (None, Some(_)) => {
                self.held.add(Arc::clone(held), None, Phase::Adding);
                self.chains.add(held, chain, None)
            }
            (None, None) => self.give_lowest(held, chain),
        };
        match given {
            Ok(ip) => {
                self.held.given(&held.id, ip);
                Ok(ip)
            }
            Err(error) => {
                // A failed release is repeated.
                let _ = self.release(held);
                Err(error)
            }
        }
    }

    /// Begins with a requested address. One that is taken may be one that Docker doesn't have any
    /// more.
    fn begin(&self, held: &Arc<Held>, ip: IpAddr) -> Result<()> {
        let Err((other, phase)) = self.held.begin(held, ip) else {
            return Ok(());
        };
        let is_released = matches!(phase, Phase::Releasing | Phase::Unreleased);
        if is_released || self.is_lost(&other, phase, ip) {
            self.release(&other)?;
            if self.held.begin(held, ip).is_ok() {
                return Ok(());
            }
        }
        match (other.purpose, &other.name) {
            (Purpose::Gateway, _) => bail!("Address already in use: {ip} is a gateway"),
            (_, Some(name)) => bail!("Address already in use: {ip} belongs to container {name}"),
            (_, None) => bail!("Address already in use: {ip}"),
        }
    }

    /// True if Docker doesn't have an address of an earlier daemon or of a pool that it has given
    /// back: its container may have ended while there was no daemon. An address that Docker
    /// requested itself is asked about at once: the container that had it requests it again.
    fn is_lost(&self, other: &Held, phase: Phase, ip: IpAddr) -> bool {
        let is_old = || other.is_older_than(self.arguments.unanswered_after);
        let is_earlier = other.since.is_none() && (other.is_requested || is_old());
        if !is_earlier && phase != Phase::Left {
            return false;
        }
        let subnet = other.pool.id.subnet;
        match self.ask_docker(ABOUT_ONE_ADDRESS) {
            // A container that is being started isn't in the answer yet, but its network is.
            Ok(docker) if !is_earlier && docker.has_subnet(subnet) => false,
            Ok(docker) => docker.has_lost(other.purpose, subnet, ip),
            Err(error) => {
                tracing::warn!(%ip, "Docker can't be asked about it: {error:#}");
                false
            }
        }
    }

    /// Reserves the lowest free address of a pool without a network configuration. As with Docker's
    /// own driver, a container that is restarted has the same address again.
    fn give_lowest(&self, held: &Arc<Held>, chain: &PoolChain) -> Result<IpAddr> {
        let mut after = None;
        for _ in 0..MOST_UNKNOWN {
            let Some(ip) = self.held.begin_lowest(held, after) else {
                break;
            };
            let error = match self.chains.add(held, chain, Some(ip)) {
                Ok(ip) => return Ok(ip),
                Err(error) => error,
            };
            let file = self.arguments.data_dir.join(DIRECTORY).join(ip.to_string());
            if !file.exists() {
                return Err(error);
            }
            // Only a file has it: its record is lost, or can't be read.
            tracing::warn!(file = %file.display(), error = message(&error), "has no record");
            self.held.forget(&held.id);
            after = Some(ip);
        }
        let given = held.pool.given.map_or(0, Interval::size);
        bail!("no address left: all {given} are reserved")
    }

    /// `ReleaseAddress`. An unknown address or pool counts as released. A gateway may be another
    /// network's: the sweep releases it.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(&self, request: &OfAddress) -> Result<Answer> {
        let Some(pool) = self.known_pool(&request.pool_id) else {
            return Ok(Answer::nothing());
        };
        let ip = requests::address(&request.address, pool.id.subnet)?;
        let ip = ip.context("Address is missing: it names what is to be released")?;
        let held = self.held.find(&pool.text, ip).or_else(|| {
            // Its record may be readable now.
            self.read_unread();
            self.held.find(&pool.text, ip)
        });
        if let Some(held) = held {
            if held.purpose == Purpose::Gateway {
                self.held.leave_gateway(&held.id);
                self.sweep_soon();
                return Ok(Answer::nothing());
            }
            let released = self.release(&held);
            released.with_context(|| format!("pool {}", pool.id.subnet))?;
        }
        Ok(Answer::nothing())
    }
}
