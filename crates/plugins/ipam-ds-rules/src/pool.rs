//! A pool of the catalogue: its entry in a result's `pools`, its routes and its DNS.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni::{Dns, Error, Object};
use ipam::{Interval, Pool, PoolName, RANGE_KEYS, RangeSet};

use crate::compiled::ChosenPool;

/// Keys of an entry of `pools` that a rule sets.
const SET_BY_RULES: [&str; 3] = ["name", "requested-ip", "sticky"];

/// A valid pool of the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct CataloguePool {
    /// Its key in messages: `ipam.pools.web`.
    pub(crate) path: String,
    /// Its name.
    pub(crate) name: PoolName,
    /// Its ranges; `None` if only a later delegate knows them.
    pub(crate) ranges: Option<RangeSet>,
    /// What an ADD needs of it. Its entry lacks the keys that rules set, and excludes no pinned
    /// address.
    pub(crate) chosen: ChosenPool,
}

impl CataloguePool {
    /// Reads a pool.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(path: String, name: &str, written: &Object) -> Result<Self, Error> {
        let parsed: PoolName = name
            .parse()
            .map_err(|why| Error::config(format!("{path}: {why}")))?;
        if let Some(key) = written.keys().find(|key| SET_BY_RULES.contains(key)) {
            return Err(Error::config(format!(
                "{path}.{key}: a pool's name is its key, and a rule sets the rest; leave it out"
            )));
        }
        ipam::refuse_unclear_keys(&path, written.keys())?;
        let mut entry = Object::new();
        entry.set("name", name);
        for key in written
            .keys()
            .filter(|key| !["routes", "dns"].contains(key))
        {
            if let Some(value) = written.get(key) {
                entry.set(key, value);
            }
        }
        // From the JSON object, so that a duplicate key is noticed.
        let is_ranged = written.keys().any(|key| {
            key == "ranges"
                || RANGE_KEYS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(key))
        });
        let ranges = is_ranged.then(|| Pool::read(&path, written.clone()));
        let ranges = ranges.transpose()?.map(|pool| pool.ranges);
        let dns: Option<Object> = written.read(&path, "dns")?;
        if let Some(dns) = &dns {
            Dns::read(&format!("{path}.dns"), dns.clone())?;
        }
        Ok(Self {
            name: parsed,
            ranges,
            chosen: ChosenPool {
                entry,
                routes: ipam::read_routes(&path, written)?,
                dns: dns.unwrap_or_default(),
                ..ChosenPool::default()
            },
            path,
        })
    }

    /// Its entry in `pools`, which excludes the pinned addresses.
    pub(crate) fn entry(&self) -> Result<Object, Error> {
        let mut entry = self.chosen.entry.clone();
        exclude(&self.path, &mut entry, &self.chosen.pinned)?;
        Ok(entry)
    }
}

/// Excludes more addresses from an entry of `pools`.
pub(crate) fn exclude(path: &str, entry: &mut Object, ips: &BTreeSet<IpAddr>) -> Result<(), Error> {
    if ips.is_empty() {
        return Ok(());
    }
    let mut excluded: Vec<String> = entry.read(path, "exclude")?.unwrap_or_default();
    let intervals = ips.iter().filter_map(|ip| Interval::new(*ip, *ip));
    for interval in Interval::merged(intervals.collect()) {
        excluded.push(if interval.first() == interval.last() {
            interval.first().to_string()
        } else {
            interval.to_string()
        });
    }
    entry.set("exclude", &excluded);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(json: &str) -> Result<CataloguePool, String> {
        let object = serde_json::from_str(json).unwrap();
        CataloguePool::read("pools.web".to_owned(), "web", &object).map_err(|error| error.msg)
    }

    #[test]
    fn an_entry_has_the_name_and_every_key_but_routes_and_dns() {
        let read = pool(
            r#"{"subnet":"10.0.0.0/24","vlan":1.50,"routes":[{"dst":"10.0.0.0/8"}],"dns":{"nameservers":["10.0.0.2"]}}"#,
        )
        .unwrap();
        assert_eq!(
            serde_json::to_string(&read.entry().unwrap()).unwrap(),
            r#"{"name":"web","subnet":"10.0.0.0/24","vlan":1.50}"#
        );
        assert!(
            read.chosen.routes.len() == 1
                && read.chosen.dns.get("nameservers").is_some()
                && read.ranges.is_some()
        );
        assert!(pool("{}").unwrap().ranges.is_none());
    }

    #[test]
    fn pinned_addresses_are_excluded_beside_what_is_written() {
        let mut read = pool(r#"{"subnet":"10.0.0.0/24","exclude":["10.0.0.64/28"]}"#).unwrap();
        for ip in ["10.0.0.21", "10.0.0.20", "10.0.0.9"] {
            read.chosen.pinned.insert(ip.parse().unwrap());
        }
        assert_eq!(
            read.entry().unwrap().get("exclude").unwrap().get(),
            r#"["10.0.0.64/28","10.0.0.9","10.0.0.20-10.0.0.21"]"#
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
            (r#"{"Subnet":"10.0.0.0/24"}"#, ".Subnet: write it as subnet"),
            (
                r#"{"subnet":"10.0.0.0/24","subnet":"10.0.1.0/24"}"#,
                ".subnet occurs twice",
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
        let unnamed = CataloguePool::read("pools.a/b".to_owned(), "a/b", &Object::new());
        assert!(unnamed.unwrap_err().msg.contains("can't name a pool"));
    }
}
