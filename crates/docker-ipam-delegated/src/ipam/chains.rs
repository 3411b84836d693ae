//! Runs chains, with our plugins linked into this process. ADD takes the configuration of the pool as
//! it is now, DEL the record alone.

use std::net::IpAddr;

use anyhow::{Context, Result};
use chain::record::record_of;
use chain::{Chain, Failure, Outcome, Plugins};
use cni::{
    Attachment, ContainerId, DelegateName, Environment, Error, IpConfig, IpamResult, NetworkConfig,
    Object,
};
use docker_records::linked_plugins::LINKED;
use docker_records::pool::Options;
use docker_records::pool_filter::ranges;
use docker_records::records::{AddressLine, CallerLine, IFNAME};
use ipam::{IpNet, Pools, Range};

use crate::ipam::allocations::Allocation;
use crate::ipam::chain_config;
use crate::ipam::facts::cni_args;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::plugins::{DelegateLog, LONGEST};
use crate::ipam::pool_chain::PoolChain;

/// The container ID that selectors are told when a pool is chosen: there is no container yet.
const CHOICE: &str = "docker-choice";

impl IpamDriver {
    /// ADD of an attachment by the chain of its pool; returns its address in the pool's subnet.
    ///
    /// # Errors
    ///
    /// The chain's. The attachment may hold something nevertheless.
    pub(crate) fn add(
        &self,
        allocation: &Allocation,
        chain: &PoolChain,
        requested: Option<IpAddr>,
    ) -> Result<IpAddr> {
        let pool = &allocation.pool;
        let config = match &pool.conflist {
            Some(name) => chain.of_address(name, pool, requested),
            None => chain_config::own(&self.arguments, requested.map(|ip| (pool.subnet, ip))),
        };
        let config = chain_config::parse(&config)?;
        let args = cni_args(&pool.options, allocation.name.as_deref());
        let environment = self.environment_of(allocation.id.as_str(), args);
        let line = CallerLine::Address(AddressLine {
            purpose: allocation.purpose,
            pool: pool.id(),
            subnet: pool.subnet,
            address: requested,
            name: allocation.name.clone(),
        });
        let chain = linked(&config, &environment)?.with_caller_line(line.to_raw());
        let output = chain.add(&attachment(&allocation.id))?;
        let result = IpamResult::read("the chain's result", output.json())?;
        let mut ips = result.ips.iter().map(IpConfig::ip);
        let ip = ips.find(|ip| pool.subnet.contains(ip));
        let ip = ip.filter(|ip| requested.is_none_or(|requested| requested == *ip));
        ip.context("the chain gave no address of it")
    }

    /// DEL of an attachment, by its record alone. It is written before a delegate runs: without one,
    /// nothing is reserved.
    ///
    /// # Errors
    ///
    /// The chain's; the record can't be read.
    pub(crate) fn del(&self, allocation: &Allocation) -> Result<()> {
        let attachment = attachment(&allocation.id);
        let record = record_of(&self.arguments.records(), &allocation.network, &attachment);
        let Some(record) = record.with_context(|| format!("the record of {attachment}"))? else {
            return Ok(());
        };
        let plugins = Plugins::in_cni_path(&self.environment)?.and_linked(LINKED);
        let chain = Chain::of_record(&record, &self.environment, plugins)?;
        Ok(configured(chain).del(&attachment)?)
    }

    /// The ranges of the pools that the selectors of a configuration choose if Docker asks for
    /// this subnet; `None` if there is no selector. Selectors hold nothing.
    ///
    /// # Errors
    ///
    /// The first failed selector's, with its name.
    pub(crate) fn ask(
        &self,
        config: &Object,
        subnet: Option<IpNet>,
        options: &Options,
    ) -> Result<Option<Vec<Range>>, Error> {
        let config = chain_config::of_question(config, subnet)?;
        let environment = self.environment_of(CHOICE, cni_args(options, None));
        let mut answers = linked(&config, &environment)?.dry_run(DelegateName::holds_nothing);
        let Some((name, last)) = answers.pop() else {
            return Ok(None);
        };
        let failure = match last {
            Outcome::Result(output) => {
                let result = IpamResult::read("the selectors' result", output.json())?;
                let mut chosen = Vec::new();
                for (_, pool) in Pools::of_result(&result)?.each() {
                    chosen.extend(ranges(&pool)?.into_iter().map(|(_, range)| range));
                }
                return Ok(Some(chosen));
            }
            Outcome::Nothing => Failure::silent(),
            Outcome::Failed(failure) => failure,
        };
        let error = failure.error;
        let msg = format!("{name}: {}", error.msg);
        Err(Error { msg, ..error })
    }

    fn environment_of(&self, container_id: &str, args: String) -> Environment {
        let environment = self.environment.clone();
        environment
            .with("CNI_CONTAINERID", container_id)
            .with("CNI_ARGS", args)
    }
}

fn linked<'a>(config: &'a NetworkConfig, environment: &'a Environment) -> Result<Chain<'a>, Error> {
    let plugins = Plugins::in_cni_path(environment)?.and_linked(LINKED);
    Ok(configured(Chain::new(config, environment, plugins)?))
}

fn configured(chain: Chain<'_>) -> Chain<'_> {
    chain.observed_by(&DelegateLog).with_longest(LONGEST)
}

/// The attachment of this container ID.
pub(crate) fn attachment(container_id: &ContainerId) -> Attachment {
    Attachment {
        container_id: container_id.clone(),
        ifname: IFNAME.parse().expect("it is an interface name"),
    }
}
