//! A pool of the catalogue: its entry in a result's `pools`, its routes and its DNS.

use std::net::IpAddr;

use cni::{Dns, Error, Object, is_field};
use ipam::{Interval, Pool, PoolName, RANGE_KEYS, RangeSet};

/// Keys of an entry of `pools` that a rule sets.
const SET_BY_RULES: [&str; 5] = ["name", "requested-ip", "sticky", "owner", "or"];

/// Keys of a pool that become parts of the result.
const OF_RESULT: [&str; 2] = ["routes", "dns"];

/// True if a key is one of these fields.
fn is_among(fields: &[&str], key: &str) -> bool {
    fields.iter().any(|field| is_field(key, field))
}

/// A valid pool of the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct CataloguePool {
    /// Its key in messages: `ipam.pools.web`.
    pub(crate) path: String,
    pub(crate) name: PoolName,
    /// Its ranges; `None` if only a later delegate knows them.
    pub(crate) ranges: Option<RangeSet>,
    pub(crate) routes: Vec<Object>,
    pub(crate) dns: Dns,
    pub(crate) written: Object,
}

impl CataloguePool {
    /// Reads a pool.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(path: String, name: &str, written: Object) -> Result<Self, Error> {
        let name: PoolName = name
            .parse()
            .map_err(|why| Error::config(format!("{path}: {why}")))?;
        if let Some(key) = written.keys().find(|key| is_among(&SET_BY_RULES, key)) {
            return Err(Error::config(format!(
                "{path}.{key}: a pool's name is its key, and a rule sets the rest; leave it out"
            )));
        }
        let is_ranged = written
            .keys()
            .any(|key| is_field(key, "ranges") || is_among(&RANGE_KEYS, key));
        let ranges = match is_ranged {
            true => Some(Pool::read(&path, written.clone())?.ranges),
            false => None,
        };
        let dns = match written.section(&path, "dns")? {
            Some(dns) => Dns::read(&format!("{path}.dns"), dns)?,
            None => Dns::default(),
        };
        Ok(Self {
            name,
            ranges,
            routes: ipam::read_routes(&path, &written)?,
            dns,
            path,
            written,
        })
    }

    /// True if the address is in one of its ranges.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|ranges| ranges.contains(ip))
    }

    /// True if one of these addresses may be the pool's: only a later delegate knows the addresses
    /// of a pool without ranges.
    fn may_give(&self, ips: Interval) -> bool {
        let ranges = self.ranges.as_ref();
        ranges.is_none_or(|set| {
            let mut ranges = set.ranges().iter();
            ranges.any(|range| range.addresses().overlaps(ips))
        })
    }

    /// Its entry in `pools` if it may or may not yield the address: with its routes and DNS, which
    /// the allocator then puts into the result.
    ///
    /// # Errors
    ///
    /// As [`Self::entry`].
    pub(crate) fn uncertain_entry(&self, pinned: &[Interval]) -> Result<Object, Error> {
        let mut entry = self.entry(pinned)?;
        for key in OF_RESULT {
            if let Some(value) = self.written.get(key) {
                entry.set(key, value);
            }
        }
        Ok(entry)
    }

    /// Its entry in `pools`, which excludes the pinned addresses.
    ///
    /// # Errors
    ///
    /// Code 7 for an `exclude` that is no array of texts.
    pub(crate) fn entry(&self, pinned: &[Interval]) -> Result<Object, Error> {
        let mut entry = Object::new();
        entry.set("name", &self.name);
        for (key, value) in self.written.iter() {
            if !is_among(&OF_RESULT, key) {
                entry.set(key, value);
            }
        }
        let pinned = pinned.iter().filter(|ips| self.may_give(**ips));
        let pinned = Interval::merged(pinned.copied().collect());
        if !pinned.is_empty() {
            let mut excluded: Vec<String> = entry.read(&self.path, "exclude")?.unwrap_or_default();
            excluded.extend(pinned.into_iter().map(as_written));
            entry.set("exclude", &excluded);
        }
        Ok(entry)
    }
}

/// The addresses as `exclude` has them.
fn as_written(ips: Interval) -> String {
    if ips.first() == ips.last() {
        ips.first().to_string()
    } else {
        ips.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(json: &str) -> Result<CataloguePool, String> {
        let written = serde_json::from_str(json).unwrap();
        CataloguePool::read("pools.web".to_owned(), "web", written).map_err(|error| error.msg)
    }

    #[test]
    fn an_entry_has_every_key_but_routes_and_dns() {
        let read = pool(
            r#"{"subnet":"10.0.0.0/24","vlan":1.50,"routes":[{"dst":"10.0.0.0/8"}],"dns":{"nameservers":["10.0.0.2"]}}"#,
        )
        .unwrap();
        assert_eq!(
            serde_json::to_string(&read.entry(&[]).unwrap()).unwrap(),
            r#"{"name":"web","subnet":"10.0.0.0/24","vlan":1.50}"#
        );
        let uncertain = read.uncertain_entry(&[]).unwrap();
        assert_eq!(
            uncertain.keys().collect::<Vec<_>>(),
            ["name", "subnet", "vlan", "routes", "dns"]
        );
        assert_eq!((read.routes.len(), read.dns.nameservers.len()), (1, 1));
        assert!(read.ranges.is_some());
        assert!(pool("{}").unwrap().ranges.is_none());
    }

    #[test]
    fn pinned_addresses_are_excluded_beside_what_is_written() {
        let pinned = ["10.0.0.21", "10.0.0.20", "10.0.0.9", "10.0.1.9"].map(|ip| {
            let ip = ip.parse().unwrap();
            Interval::new(ip, ip).unwrap()
        });
        let excluded = |json: &str| {
            let entry = pool(json).unwrap().entry(&pinned).unwrap();
            entry.get("exclude").unwrap().get().to_owned()
        };
        assert_eq!(
            excluded(r#"{"subnet":"10.0.0.0/24","exclude":["10.0.0.64/28"]}"#),
            r#"["10.0.0.64/28","10.0.0.9","10.0.0.20-10.0.0.21"]"#
        );
        // Only a later delegate knows the addresses of a pool without ranges.
        assert_eq!(
            excluded("{}"),
            r#"["10.0.0.9","10.0.0.20-10.0.0.21","10.0.1.9"]"#
        );
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (json, message) in [
            (
                r#"{"subnet":"10.0.0.5/24"}"#,
                ".subnet: \"10.0.0.5/24\" has host bits set; its network is 10.0.0.0/24",
            ),
            (r#"{"rangeStart":"10.0.0.5"}"#, ".subnet is missing"),
            (
                r#"{"subnet":"10.0.0.0/24","Subnet":"10.0.1.0/24"}"#,
                ".subnet is there as \"Subnet\", too; write one of the two",
            ),
            (
                r#"{"Routes":[{"dst":"10.0.0.0/8","table":"main"}]}"#,
                ".routes[0].table: \"main\" is no integer of 64 bits",
            ),
            (
                r#"{"name":"x"}"#,
                ".name: a pool's name is its key, and a rule sets the rest; leave it out",
            ),
            (
                r#"{"routes":[{"dst":"x"}]}"#,
                ".routes[0].dst: \"x\" is no subnet (such as 0.0.0.0/0)",
            ),
            (
                r#"{"dns":{"search":"x"}}"#,
                ".dns.search: invalid type: string \"x\", expected a sequence",
            ),
        ] {
            assert_eq!(pool(json).unwrap_err(), format!("pools.web{message}"));
        }
        let unnamed = CataloguePool::read("pools.a/b".to_owned(), "a/b", Object::new());
        assert!(unnamed.unwrap_err().msg.contains("can't name a pool"));
    }
}
