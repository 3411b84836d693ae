//! A pool, which is its ID: a JSON text that Docker stores and passes back with each call.

use anyhow::{Context, Result};
use cni::{NetworkName, Object};
use ipam::{Interval, IpNet, Range};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ipam::requests::Options;

/// The ID. Identical requests have identical IDs, so several networks may have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolId {
    /// The subnet.
    pub(crate) subnet: IpNet,
    /// The sub-pool: addresses are given from this part, unless Docker requests another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<IpNet>,
    /// The network's options, which are facts for the chain.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub(crate) options: Options,
    /// The network configuration whose chain serves the pool. It is read at each request.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "conflist_name"
    )]
    pub(crate) conflist: Option<NetworkName>,
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

/// A pool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    /// The ID, as Docker gets it.
    pub(crate) text: String,
    /// The ID.
    pub(crate) id: PoolId,
    /// The addresses that are given without request; `None` if a network configuration has the
    /// pool, whose allocator chooses then.
    pub(crate) given: Option<Interval>,
}

impl Pool {
    /// The pool of this ID, which this version or an earlier one has made.
    ///
    /// # Errors
    ///
    /// The text is no ID, or its values are wrong.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let id = serde_json::from_str(text);
        Self::of(id.with_context(|| format!("PoolID: {text:?} is no pool of this daemon"))?)
    }

    /// The pool of this ID.
    ///
    /// # Errors
    ///
    /// A wrong value.
    pub(crate) fn of(id: PoolId) -> Result<Self> {
        let given = match &id.conflist {
            None => Some(given_of(id.subnet, id.range)?),
            Some(_) => None,
        };
        Ok(Self {
            text: serde_json::to_string(&id).expect("an ID is JSON"),
            id,
            given,
        })
    }

    /// True if an address of this pool may be one of the other pool's: both have their reservations
    /// in the same directories.
    pub(crate) fn shares_addresses_with(&self, other: &Self) -> bool {
        self.id.conflist == other.id.conflist
    }

    /// True if the pools are of the same subnet, and share its addresses.
    pub(crate) fn shares_subnet_with(&self, other: &Self) -> bool {
        self.id.subnet == other.id.subnet && self.shares_addresses_with(other)
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
/// subnet's own address nor its broadcast address.
fn given_of(subnet: IpNet, range: Option<IpNet>) -> Result<Interval> {
    let all = whole(subnet)?.addresses();
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
        Pool::parse(text).unwrap().text
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
            let all = given_of("10.1.0.0/24".parse().unwrap(), range).unwrap();
            assert_eq!(all.to_string(), given);
        }
    }
}
