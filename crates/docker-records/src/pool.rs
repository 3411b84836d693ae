//! A pool of the daemon for Docker. It is its ID: a JSON text that Docker stores and passes back with each
//! call, so the daemon keeps no file of it, and reads the IDs of earlier versions as well.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use cni::{NetworkName, Object};
use ipam::{Interval, IpNet, Range};
use serde::{Deserialize, Deserializer, Serialize};

/// The directory of the reservations of pools without a network configuration.
pub const DOCKER_DIRECTORY: &str = "docker";

/// Options, as Docker passes them on.
pub type Options = BTreeMap<String, String>;

/// A pool. Identical requests have identical pools, so several networks may have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The subnet.
    pub subnet: IpNet,
    /// The sub-pool: addresses are given from this part, unless Docker requests another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<IpNet>,
    /// The network's options, which are facts for the chain.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// The network configuration whose chain serves the pool. It is read at each request.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "conflist_name"
    )]
    pub conflist: Option<NetworkName>,
    /// The addresses that are given without request; `None` if a network configuration has the
    /// pool, whose allocator chooses then.
    #[serde(skip)]
    pub given: Option<Interval>,
}

/// The name of the network configuration. Earlier versions wrote an object, with a copy of the
/// configuration.
fn conflist_name<'de, D: Deserializer<'de>>(source: D) -> Result<Option<NetworkName>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Name(NetworkName),
        Copy { name: NetworkName },
    }
    let (Written::Name(name) | Written::Copy { name }) = Written::deserialize(source)?;
    Ok(Some(name))
}

impl Pool {
    /// A pool of these values.
    ///
    /// # Errors
    ///
    /// Without a network configuration, the subnet or the range has no address to give.
    pub fn new(
        subnet: IpNet,
        range: Option<IpNet>,
        options: Options,
        conflist: Option<NetworkName>,
    ) -> Result<Self> {
        let given = match &conflist {
            None => Some(given_addresses(subnet, range)?),
            Some(_) => None,
        };
        Ok(Self {
            subnet,
            range,
            options,
            conflist,
            given,
        })
    }

    /// The pool of this ID, which this version or an earlier one has made.
    ///
    /// # Errors
    ///
    /// The text is no ID, or its values are wrong.
    pub fn parse(id: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(id)
            .with_context(|| format!("PoolID: {id:?} is no pool of this daemon"))?;
        Self::new(read.subnet, read.range, read.options, read.conflist)
    }

    /// The ID, as Docker gets it.
    pub fn id(&self) -> String {
        serde_json::to_string(self).expect("a pool is JSON")
    }

    /// True if an address of this pool may be one of the other pool's: both have their reservations
    /// in the same directories.
    pub fn shares_addresses_with(&self, other: &Self) -> bool {
        self.conflist == other.conflist
    }

    /// True if the pools are of the same subnet, and share its addresses.
    pub fn shares_subnet_with(&self, other: &Self) -> bool {
        self.subnet == other.subnet && self.shares_addresses_with(other)
    }
}

/// A range of a subnet, or of a part of it, as `host-local` reads it.
pub fn range_of(subnet: IpNet, part: Option<IpNet>) -> Object {
    let mut range = Object::new();
    range.set("subnet", &subnet);
    if let Some(part) = part.map(Interval::from) {
        let all = Interval::from(subnet);
        // For an end of the subnet, the default is used: it leaves out the network's own address.
        if part.first() != all.first() {
            range.set("rangeStart", &part.first());
        }
        if part.last() != all.last() {
            range.set("rangeEnd", &part.last());
        }
    }
    range
}

/// The range of a whole subnet, with the default gateway.
///
/// # Errors
///
/// Code 7: the subnet has no address to give.
pub fn whole_subnet(subnet: IpNet) -> Result<Range, cni::Error> {
    Range::read("Pool", &range_of(subnet, None))
}

/// The addresses of a subnet, or of a part of it, that are given without request: neither the
/// subnet's own address nor its broadcast address.
fn given_addresses(subnet: IpNet, range: Option<IpNet>) -> Result<Interval> {
    let all = whole_subnet(subnet)?.addresses();
    let Some(range) = range else {
        return Ok(all);
    };
    let given = Interval::from(range).intersection(all);
    given.with_context(|| {
        format!("SubPool: {range} has no address that can be given: the Pool {subnet} gives {all}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> String {
        Pool::parse(text).unwrap().id()
    }

    #[test]
    fn an_id_of_an_earlier_version_is_the_same_pool() {
        let own = r#"{"subnet":"10.1.0.0/24","range":"10.1.0.128/25","options":{"team":"shop"}}"#;
        let earlier = own.replacen('{', r#"{"id":"3f51f5854bbee2a8","#, 1);
        assert_eq!((id(own), id(&earlier)), (own.to_owned(), own.to_owned()));
        let earlier = r#"{"id":"3f51f5854bbee2a8","subnet":"10.1.0.0/24","conflist":{"name":"web",
            "cniVersion":"1.0.0","ipam":{"type":"host-local"},"isGiven":false,"gateway":"10.1.0.1"}}"#;
        let named = r#"{"subnet":"10.1.0.0/24","conflist":"web"}"#;
        assert_eq!(
            (id(named), id(earlier)),
            (named.to_owned(), named.to_owned())
        );
    }

    #[test]
    fn another_id_is_refused_by_name() {
        for text in ["x", "{}", r#"{"subnet":"10.1.0.0/24","conflist":{}}"#] {
            let refused = Pool::parse(text).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("PoolID: {text:?}")),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_sub_pool_is_given_from_its_first_address_to_its_last() {
        for (range, given) in [
            (None, "10.1.0.1-10.1.0.254"),
            (Some("10.1.0.128/25"), "10.1.0.128-10.1.0.254"),
            (Some("10.1.0.0/25"), "10.1.0.1-10.1.0.127"),
            (Some("10.1.0.4/30"), "10.1.0.4-10.1.0.7"),
        ] {
            let range = range.map(|range| range.parse().unwrap());
            let all = given_addresses("10.1.0.0/24".parse().unwrap(), range).unwrap();
            assert_eq!(all.to_string(), given);
        }
    }
}
