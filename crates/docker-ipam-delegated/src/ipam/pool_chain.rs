//! The chain that serves a pool. That of a network configuration is read at each request, as by
//! every other runtime: a change of the configuration reaches running networks.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use cni::{NetworkName, Object, code};
use docker_records::pool::{Options, Pool, range_of, whole_subnet};
use docker_records::pool_filter::{self, RequestedPool};
use ipam::{Interval, IpNet, NO_GATEWAY, Range};

use crate::ipam::chain_config;
use crate::ipam::conflists;
use crate::ipam::ipam_driver::IpamDriver;

/// The chain of a pool.
#[derive(Debug)]
pub(crate) struct PoolChain {
    /// Its configuration, without anything of one address.
    config: Object,
    /// The name of its network, under which its attachments are recorded.
    pub(crate) network: NetworkName,
    /// True if the chain is told the subnet, false if its selectors choose it.
    is_given: bool,
    /// The default gateway, if there is one. A chain of a network configuration gives it to nobody.
    pub(crate) gateway: Option<IpAddr>,
}

impl PoolChain {
    /// The default gateway of the pool.
    ///
    /// # Errors
    ///
    /// The network configuration's pool has none.
    pub(crate) fn gateway_of(&self, pool: &Pool) -> Result<IpAddr> {
        let name = pool.conflist.as_ref().map_or("", NetworkName::as_str);
        self.gateway.with_context(|| {
            format!(
                "conflist {name} has the gateway \"{NO_GATEWAY}\", and Docker needs one: --gateway, or \
                 a gateway in the conflist"
            )
        })
    }

    /// The configuration for one address of a pool of this network configuration.
    pub(crate) fn of_address(
        &self,
        name: &NetworkName,
        pool: &Pool,
        requested: Option<IpAddr>,
    ) -> Object {
        // Docker may request an address of the pool that is not in the sub-pool.
        let is_inside = |range: &IpNet| requested.is_none_or(|ip| range.contains(&ip));
        let (subnet, range) = (pool.subnet, pool.range.filter(is_inside));
        let mut runtime = Object::new();
        if self.is_given {
            runtime.set("ipRanges", &[[range_of(subnet, range)]]);
        }
        if let Some(ip) = requested {
            runtime.set("ips", &[format!("{ip}/{}", subnet.prefix_len())]);
        }
        let wanted = RequestedPool {
            subnet,
            range,
            requested,
            directory: name.to_string(),
        };
        let mut config = self.config.clone();
        config.set("runtimeConfig", &runtime);
        config.set(pool_filter::KEY, &wanted);
        config
    }
}

impl IpamDriver {
    /// The chain of a pool, as it is configured now.
    ///
    /// # Errors
    ///
    /// There is no such network configuration; its selectors don't choose the pool's subnet, or
    /// have no address of its sub-pool.
    pub(crate) fn chain_of(&self, pool: &Pool) -> Result<PoolChain> {
        let (config, is_given, gateway) = match &pool.conflist {
            None => {
                // As with Docker's own driver, the lowest address that is given.
                let lowest = pool.given.map(Interval::first);
                (chain_config::own(&self.arguments, None), false, lowest)
            }
            Some(name) => {
                let config = self.config_of(name)?;
                let own = self.own_ranges(&config, &pool.options)?;
                let of_subnet: Vec<&Range> = in_subnet(&own, pool.subnet).collect();
                if let Some(first) = of_subnet.first() {
                    refuse_empty(&of_subnet, pool.range)?;
                    (config, false, first.gateway())
                } else {
                    let gateway = self.given_gateway(name, &config, pool)?;
                    (config, true, gateway)
                }
            }
        };
        Ok(PoolChain {
            network: chain_config::parse(&config)?.name().clone(),
            config,
            is_given,
            gateway,
        })
    }

    /// The configuration of this network configuration's chain, as it is now.
    ///
    /// # Errors
    ///
    /// There is no such network configuration, or it can't serve Docker.
    pub(crate) fn config_of(&self, name: &NetworkName) -> Result<Object> {
        let list = conflists::find(&self.arguments.conf_dir, name.as_str())?;
        chain_config::of_conflist(&list, &self.arguments.records())
    }

    /// The ranges that the configuration has by itself. A subnet of theirs is not passed to it: it
    /// would be a duplicate.
    fn own_ranges(&self, config: &Object, options: &Options) -> Result<Vec<Range>> {
        match self.ask(config, None, options) {
            // Without a requested subnet, the configuration has no pool to choose.
            Err(error) if error.code == code::INVALID_CONFIG => Ok(Vec::new()),
            other => Ok(other?.unwrap_or_default()),
        }
    }

    /// The gateway of a subnet that is passed to the selectors.
    fn given_gateway(
        &self,
        name: &NetworkName,
        config: &Object,
        pool: &Pool,
    ) -> Result<Option<IpAddr>> {
        let subnet = pool.subnet;
        let Some(chosen) = self.ask(config, Some(subnet), &pool.options)? else {
            return Ok(whole_subnet(subnet)?.gateway());
        };
        let Some(found) = in_subnet(&chosen, subnet).next() else {
            let chosen = list_of(&chosen);
            bail!("conflist {name} has no pool of {subnet}; it chooses {chosen}");
        };
        Ok(found.gateway())
    }
}

fn in_subnet(ranges: &[Range], subnet: IpNet) -> impl Iterator<Item = &Range> {
    ranges.iter().filter(move |range| range.subnet() == subnet)
}

/// Refuses a sub-pool that has none of the addresses of these ranges.
fn refuse_empty(ranges: &[&Range], part: Option<IpNet>) -> Result<()> {
    let Some(part) = part else {
        return Ok(());
    };
    let given: Vec<&Interval> = ranges.iter().flat_map(|range| range.given()).collect();
    let texts: Vec<String> = given.iter().map(ToString::to_string).collect();
    ensure!(
        given.iter().any(|interval| interval.overlaps(part.into())),
        "SubPool: {part} has no address that can be given: the Pool gives {}",
        texts.join(", ")
    );
    Ok(())
}

/// The subnets of these ranges, for a message.
pub(crate) fn list_of(chosen: &[Range]) -> String {
    if chosen.is_empty() {
        return "none".to_owned();
    }
    let subnets = chosen.iter().map(|range| range.subnet().to_string());
    subnets.collect::<Vec<_>>().join(", ")
}
