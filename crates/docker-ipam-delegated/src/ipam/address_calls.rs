//! Docker's calls for addresses of a pool.
//!
//! A request gets the address that it names, or one that is free: the lowest of a pool without a
//! network configuration, or the choice of the configuration's chain. `allocations` knows who has
//! which, and a chain's ADD reserves it. A requested one that is taken is released first, if an earlier
//! release of it has failed, or Docker has lost it. What Docker doesn't get is released again.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use docker_records::pool::{DOCKER_DIRECTORY, Pool};
use docker_records::records::Purpose;
use ipam::Interval;
use reservations::view;
use serde_json::json;

use crate::docker::whole_answer::WholeAnswer;
use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::allocations::{Allocation, Phase};
use crate::ipam::facts;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::pool_chain::PoolChain;
use crate::ipam::requests::{self, PoolCall, refuse_ends, refuse_only};

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
    pub(crate) fn request_address(self: &Arc<Self>, request: &PoolCall) -> Result<Answer> {
        let pool = Pool::parse(&request.pool_id)?;
        let requested = requests::address(&request.address, pool.subnet)?;
        let chain = self.chain_of(&pool).with_context(|| named(&pool))?;
        let (ip, new) = if facts::is_for_gateway(&request.options) {
            let ip = requested.map_or_else(|| chain.gateway_of(&pool), Ok)?;
            (ip, self.allocate_gateway(&pool, &chain, ip)?)
        } else {
            if let Some(ip) = requested {
                refuse_ends(pool.subnet, ip)?;
            }
            let (purpose, name) = (Purpose::Container, facts::name(&request.options));
            let new =
                self.new_allocation(&pool, &chain.network, purpose, requested.is_some(), name);
            (self.give(&new, &chain, requested)?, Some(new))
        };
        let address = format!("{ip}/{}", pool.subnet.prefix_len());
        let answer = Answer::of(&json!({"Address": address, "Data": {}}));
        Ok(answer.then(self.unless_delivered(new)))
    }

    /// Allocates a gateway, unless it is one already: it is its subnet's, whatever the networks of
    /// the subnet.
    fn allocate_gateway(
        &self,
        pool: &Pool,
        chain: &PoolChain,
        ip: IpAddr,
    ) -> Result<Option<Arc<Allocation>>> {
        refuse_ends(pool.subnet, ip)?;
        refuse_only(pool, ip)?;
        // A network configuration's chain gives its gateway to nobody.
        let is_the_chains = pool.conflist.is_some() && chain.gateway == Some(ip);
        if is_the_chains || self.allocations.share_gateway(pool, ip) {
            return Ok(None);
        }
        let new = self.new_allocation(pool, &chain.network, Purpose::Gateway, true, None);
        self.give(&new, chain, Some(ip))?;
        Ok(Some(new))
    }

    /// Releases an attachment if Docker doesn't get the answer.
    pub(crate) fn unless_delivered(
        self: &Arc<Self>,
        new: Option<Arc<Allocation>>,
    ) -> impl FnOnce(bool) + Send + 'static {
        let driver = Arc::clone(self);
        move |is_delivered| {
            if let Some(new) = new.filter(|_| !is_delivered) {
                let (id, subnet) = (new.id.as_str(), new.pool.subnet);
                tracing::warn!(id, %subnet, "Docker closed the connection before it got the answer");
                // A failed release is repeated.
                let _ = driver.release(&new);
            }
        }
    }

    /// Reserves an address for an attachment: the requested one, or one that is free.
    fn give(
        &self,
        new: &Arc<Allocation>,
        chain: &PoolChain,
        requested: Option<IpAddr>,
    ) -> Result<IpAddr> {
        let given = match (requested, &new.pool.conflist) {
            (Some(ip), _) => {
                let begun = self.begin(new, ip);
                begun.and_then(|()| self.add(new, chain, Some(ip)))
            }
            (None, Some(_)) => {
                self.allocations.add(Arc::clone(new), None, Phase::Adding);
                self.add(new, chain, None)
            }
            (None, None) => self.give_lowest(new, chain),
        };
        self.conclude(new, given).with_context(|| named(&new.pool))
    }

    /// Notes that Docker has the address of an attachment; releases what a failed ADD may have left.
    pub(crate) fn conclude(&self, new: &Allocation, added: Result<IpAddr>) -> Result<IpAddr> {
        if let Ok(ip) = added {
            self.allocations.given(&new.id, ip);
        } else {
            // A failed release is repeated.
            let _ = self.release(new);
        }
        added
    }

    /// Begins with a requested address. One that is taken may be one that Docker doesn't have any
    /// more.
    fn begin(&self, new: &Arc<Allocation>, ip: IpAddr) -> Result<()> {
        let Err((other, phase)) = self.allocations.begin(new, ip) else {
            return Ok(());
        };
        let is_released = matches!(phase, Phase::Releasing | Phase::Unreleased);
        if is_released || self.is_lost(&other, phase, ip) {
            self.release(&other)?;
            if self.allocations.begin(new, ip).is_ok() {
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
    fn is_lost(&self, other: &Allocation, phase: Phase, ip: IpAddr) -> bool {
        let is_old = || other.is_older_than(self.arguments.unanswered_after);
        let is_earlier = other.since.is_none() && (other.is_requested || is_old());
        if !is_earlier && phase != Phase::Left {
            return false;
        }
        let subnet = other.pool.subnet;
        match WholeAnswer::ask(&self.arguments.docker_socket, ABOUT_ONE_ADDRESS) {
            // A container that is being started isn't in the answer yet, but its network is.
            Ok(docker) => {
                let is_pool_lost = docker.has_lost(Purpose::Subnet, subnet, subnet.network());
                (is_earlier || is_pool_lost) && docker.has_lost(other.purpose, subnet, ip)
            }
            Err(error) => {
                tracing::warn!(%ip, "Docker can't be asked about it: {error:#}");
                false
            }
        }
    }

    /// Reserves the lowest free address of a pool without a network configuration. As with Docker's
    /// own driver, a container that is restarted has the same address again.
    fn give_lowest(&self, new: &Arc<Allocation>, chain: &PoolChain) -> Result<IpAddr> {
        let directory = self.arguments.data_dir.join(DOCKER_DIRECTORY);
        let mut after = None;
        for _ in 0..MOST_UNKNOWN {
            let Some(ip) = self.allocations.begin_lowest(new, after) else {
                break;
            };
            let error = match self.add(new, chain, Some(ip)) {
                Ok(ip) => return Ok(ip),
                Err(error) => error,
            };
            if !matches!(view::address(&directory, ip), Ok(Some(_))) {
                return Err(error);
            }
            // Only a file has it: its record is lost, or can't be read.
            let file = directory.join(ip.to_string());
            tracing::warn!(file = %file.display(), error = message(&error), "has no record");
            self.allocations.end_release(&new.id, true);
            after = Some(ip);
        }
        let given = new.pool.given.map_or(0, Interval::size);
        bail!("no address left: all {given} are reserved")
    }

    /// `ReleaseAddress`. An unknown address or pool counts as released. A gateway may be another
    /// network's: the sweep releases it.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(&self, request: &PoolCall) -> Result<Answer> {
        let Some(pool) = requests::known_pool(&request.pool_id) else {
            return Ok(Answer::nothing());
        };
        let ip = requests::address(&request.address, pool.subnet)?;
        let ip = ip.context("Address is missing: it names what is to be released")?;
        let find = || self.allocations.find(&pool, ip);
        let found = find().or_else(|| {
            // Its record may be readable now.
            self.read_unread();
            find()
        });
        match found {
            Some(found) if found.purpose == Purpose::Gateway => {
                self.allocations.leave(|one| one.id == found.id);
                self.sweep_soon();
            }
            Some(found) => self.release(&found).with_context(|| named(&pool))?,
            None => {}
        }
        Ok(Answer::nothing())
    }
}

/// A pool in a message.
fn named(pool: &Pool) -> String {
    format!("pool {}", pool.subnet)
}
