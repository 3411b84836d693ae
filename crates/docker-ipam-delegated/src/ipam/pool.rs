//! A pool, which is its ID: a JSON text that Docker stores and passes back with each call.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cni::{Environment, NetworkName, Object};
use ipam::{Interval, IpNet, Range};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::command_line::CommandLine;
use crate::ipam::chain_config;
use crate::ipam::requests::Options;

/// The ID.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolId {
    /// Differs for each request, so that networks of one subnet have different pools.
    #[serde(default)]
    pub(crate) id: String,
    /// The subnet.
    pub(crate) subnet: IpNet,
    /// The sub-pool: addresses are given from this part, unless Docker requests another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<IpNet>,
    /// The network's options, which are facts for the chain.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(crate) options: Options,
    /// The network configuration whose chain serves the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) conflist: Option<Conflist>,
}

/// The part of a network configuration that an address needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conflist {
    /// Its name.
    pub(crate) name: NetworkName,
    /// Its version of the specification.
    pub(crate) cni_version: String,
    /// The `ipam` section, as it was when the network was made.
    pub(crate) ipam: Box<RawValue>,
    /// True if the chain is told the subnet, false if its selectors choose it.
    pub(crate) is_given: bool,
    /// The gateway of the chain's pool, which the chain gives to nobody.
    pub(crate) gateway: IpAddr,
}

/// A pool, with all that is needed for an address of it.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The ID, as Docker has it.
    pub(crate) text: String,
    /// The ID, parsed.
    pub(crate) id: PoolId,
    /// The configuration of its chain, without anything of one address.
    pub(crate) config: Object,
    /// The name of the chain's network.
    pub(crate) network: NetworkName,
    /// The folder of the chain's records.
    pub(crate) state_dir: PathBuf,
    /// The addresses that are given without request, in ascending order; empty if a network
    /// configuration has the pool, whose allocator chooses then.
    pub(crate) given: Vec<Interval>,
}

impl Pool {
    /// The pool of this ID.
    ///
    /// # Errors
    ///
    /// The text is no ID, or its values are wrong.
    pub(crate) fn parse(
        text: &str,
        arguments: &CommandLine,
        environment: &Environment,
    ) -> Result<Self> {
        let id = serde_json::from_str(text);
        let id = id.with_context(|| format!("PoolID: {text:?} is no pool of this daemon"))?;
        Self::new(text.to_owned(), id, arguments, environment)
    }

    /// A new pool.
    ///
    /// # Errors
    ///
    /// A wrong value.
    pub(crate) fn of(
        id: PoolId,
        arguments: &CommandLine,
        environment: &Environment,
    ) -> Result<Self> {
        let text = serde_json::to_string(&id).expect("an ID is JSON");
        Self::new(text, id, arguments, environment)
    }

    fn new(
        text: String,
        id: PoolId,
        arguments: &CommandLine,
        environment: &Environment,
    ) -> Result<Self> {
        let (config, given) = match &id.conflist {
            None => (chain_config::own(arguments), given_of(id.subnet, id.range)?),
            Some(conflist) => (
                chain_config::of_conflist(conflist, &arguments.records())?,
                Vec::new(),
            ),
        };
        let parsed = chain_config::parse(&config)?;
        Ok(Self {
            text,
            network: parsed.name().clone(),
            state_dir: chain::record::state_dir(&parsed, environment)?,
            id,
            config,
            given,
        })
    }

    /// The default gateway.
    pub(crate) fn gateway(&self) -> IpAddr {
        match &self.id.conflist {
            Some(conflist) => conflist.gateway,
            None => second_of(self.id.subnet),
        }
    }

    /// True if an address of this pool may be one of the other pool's: both have their reservations
    /// in the same directories.
    pub(crate) fn shares_addresses_with(&self, other: &Self) -> bool {
        let name = |pool: &Self| {
            pool.id
                .conflist
                .as_ref()
                .map(|conflist| conflist.name.clone())
        };
        name(self) == name(other)
    }
}

/// The range of a whole subnet, with the default gateway.
///
/// # Errors
///
/// Code 7: the subnet has no address to give.
pub(crate) fn whole(subnet: IpNet) -> Result<Range, cni::Error> {
    let mut keys = Object::new();
    keys.set("subnet", &subnet);
    Range::read("Pool", &keys)
}

/// The addresses of a subnet, or of a part of it, that are given without request: neither the
/// subnet's own address, nor its broadcast address, nor the first address of the part.
fn given_of(subnet: IpNet, range: Option<IpNet>) -> Result<Vec<Interval>> {
    let all = whole(subnet)?.addresses();
    let Some(range) = range else {
        return Ok(vec![all]);
    };
    let part = Interval::from(range);
    let behind_first = part.after(part.first()).filter(|_| part.size() > 2);
    let given = behind_first.unwrap_or(part).intersection(all);
    let given = given.with_context(|| {
        format!("SubPool: {range} has no address that can be given: the Pool {subnet} gives {all}")
    })?;
    Ok(vec![given])
}

fn second_of(subnet: IpNet) -> IpAddr {
    let all = Interval::from(subnet);
    let second = all.after(all.first());
    second.map_or(all.first(), Interval::first)
}
