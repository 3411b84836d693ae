//! The contract between selectors and allocators: the key `pools` of a result.
//!
//! A selector appends entries ([`Pools::append`]) and passes everything else on. An allocator reads them
//! ([`Pools::of_call`]): each entry is a [`Pool`], with those that are tried when it is full
//! ([`Overflow`]), and yields one address. On DEL and GC, what is invalid counts as none, so that
//! addresses are released whatever somebody has written since.

use std::collections::BTreeSet;

use cni::{Error, IpConfig, IpamResult, NetworkConfig, NetworkName, Object};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::disjoint::Disjoint;
use crate::gateways::{self, refuse_missing_gateway};
use crate::{Overflow, Pool, overflow};

/// The key of a result.
const KEY: &str = "pools";

/// The addresses of `prevResult`, of the runtime or of the chain's record, for DEL and CHECK. What is
/// invalid is logged, and counts as none.
pub fn prev_ips(config: &NetworkConfig) -> Vec<IpConfig> {
    let result = config.prev_result().unwrap_or_else(|error| {
        tracing::warn!(%error, "going on without the addresses in prevResult");
        None
    });
    result.map(|result| result.ips).unwrap_or_default()
}

/// Entries of a result's `pools`, as selectors wrote them. Each yields one address.
#[derive(Clone, Debug, Default)]
pub struct Pools(Vec<Object>);

impl Pools {
    /// These entries: for an allocator that completes entries before it reads them.
    pub fn new(entries: Vec<Object>) -> Self {
        Self(entries)
    }

    /// `prevResult.pools` of a call. Empty if no selector has put any there.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key, for what is no array of objects.
    pub fn of_call(config: &NetworkConfig) -> Result<Self, Error> {
        let prev_result = config.section("prevResult")?.unwrap_or_default();
        let pools = prev_result.read("prevResult", KEY)?;
        Ok(Self(pools.unwrap_or_default()))
    }

    /// [`Self::of_call`] for DEL and GC: what is invalid is logged, and counts as none, so that
    /// addresses are released.
    pub fn to_release(config: &NetworkConfig) -> Self {
        Self::of_call(config).unwrap_or_else(|error| {
            tracing::warn!(%error, "going on without the pools in prevResult");
            Self::default()
        })
    }

    /// The pools of a selector's result.
    ///
    /// # Errors
    ///
    /// Code 7 if they are no array of objects.
    pub fn of_result(result: &IpamResult) -> Result<Self, Error> {
        list(result, KEY).map(Self)
    }

    /// The result of a selector: everything in `prevResult`, with `pools` after those
    /// that are there. Each of `pools` is a JSON object.
    ///
    /// # Errors
    ///
    /// Code 7 if `prevResult` is invalid, naming the key.
    ///
    /// # Panics
    ///
    /// If a pool can't be written as JSON.
    pub fn append<P: Serialize>(
        config: &NetworkConfig,
        pools: impl IntoIterator<Item = P>,
    ) -> Result<IpamResult, Error> {
        let mut result = config.prev_result()?.unwrap_or_default();
        let mut all: Vec<Box<RawValue>> = list(&result, "prevResult.pools")?;
        let pools = pools.into_iter();
        all.extend(pools.map(|pool| to_raw_value(&pool).expect("a pool is JSON")));
        result.set_other(KEY, &all);
        Ok(result)
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Object] {
        &self.0
    }

    /// The entries, in order.
    pub fn into_entries(self) -> Vec<Object> {
        self.0
    }

    /// The pools of all entries, of a call with this configuration. None gives a gateway of another
    /// one.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for an invalid pool; for two that overlap: one
    /// attachment would get two addresses that a definition meant for different pools; for the
    /// request of a gateway; for a pool without a gateway beside a main plugin that takes one.
    pub fn read(self, config: &NetworkConfig) -> Result<Vec<Overflow>, Error> {
        let entries = self.0.into_iter().enumerate();
        let read = entries.map(|(i, entry)| Overflow::read(&path(i), entry));
        let mut read = read.collect::<Result<Vec<Overflow>, Error>>()?;
        let mut all: Vec<(String, &mut Pool)> = Vec::new();
        for (i, overflow) in read.iter_mut().enumerate() {
            let pools = overflow.all_mut().enumerate();
            all.extend(pools.map(|(nth, pool)| (path_of(i, nth), pool)));
        }
        let mut disjoint = Disjoint::default();
        for (at, (path, pool)) in all.iter().enumerate() {
            refuse_missing_gateway(path, &pool.ranges, config)?;
            if let Err(earlier) = disjoint.add(&pool.ranges, at) {
                let (path_of_earlier, earlier) = &all[earlier];
                return Err(Error::config(format!(
                    "{path}: {} overlaps {} of {path_of_earlier}",
                    pool.ranges, earlier.ranges
                )));
            }
        }
        gateways::keep_free(&mut all, &disjoint)?;
        Ok(read)
    }

    /// Each pool of the entries, also of their `or`, with its name in messages, for DEL and GC: an
    /// unreadable one is logged and skipped, so that everything else can be released.
    pub fn each(&self) -> Vec<(String, Object)> {
        let mut each = Vec::new();
        for (i, entry) in self.0.iter().enumerate() {
            each.push((path(i), entry.clone()));
            let or = overflow::objects(&path(i), entry).unwrap_or_else(|error| {
                skip(&error);
                Vec::new()
            });
            let or = or.into_iter().enumerate();
            each.extend(or.map(|(nth, pool)| (path_of(i, nth + 1), pool)));
        }
        each
    }

    /// The directories of the pools' reservations, for DEL and GC. An unreadable entry is logged
    /// and skipped, so that everything else can be released.
    pub fn directories(&self, network: &NetworkName) -> BTreeSet<NetworkName> {
        let each = self.each().into_iter();
        let directories = each.map(|(path, pool)| Pool::directory_of(&path, &pool));
        directories
            .filter_map(|directory| directory.inspect_err(skip).ok())
            .map(|directory| directory.unwrap_or_else(|| network.clone()))
            .collect()
    }
}

fn skip(error: &Error) {
    tracing::warn!(%error, "going on without this pool, so that addresses are released");
}

fn list<T: DeserializeOwned>(result: &IpamResult, path: &str) -> Result<Vec<T>, Error> {
    match result.other(KEY) {
        Some(raw) if raw.get() != "null" => cni::read(path, raw),
        _ => Ok(Vec::new()),
    }
}

fn path(index: usize) -> String {
    format!("prevResult.{KEY}[{index}]")
}

/// The name of an entry's pool: its own, or that of its `or` with this number, from 1.
fn path_of(index: usize, nth: usize) -> String {
    match nth.checked_sub(1) {
        None => path(index),
        Some(of_or) => format!("{}.or[{of_or}]", path(index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::SpecVersion;

    fn config(prev_result: &str) -> NetworkConfig {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","prevResult":{prev_result}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    fn appended(prev_result: &str) -> String {
        let result = Pools::append(&config(prev_result), [serde_json::json!({"vlan": 7})]).unwrap();
        result.to_raw(SpecVersion::V1_0_0).get().to_owned()
    }

    #[test]
    fn a_selectors_pools_come_after_those_that_are_there() {
        assert_eq!(
            appended(
                r#"{"x":1.50,"pools":[{"name":"blue", "vlan":1e3}],"ips":[{"address":"10.0.0.2/24"}]}"#
            ),
            concat!(
                r#"{"x":1.50,"pools":[{"name":"blue", "vlan":1e3},{"vlan":7}],"#,
                r#""ips":[{"address":"10.0.0.2/24"}],"cniVersion":"1.0.0","routes":[],"dns":{}}"#
            )
        );
        for none in ["null", "{}", r#"{"pools":null}"#, r#"{"pools":[]}"#] {
            assert!(appended(none).contains(r#""pools":[{"vlan":7}]"#), "{none}");
        }
        let error = Pools::append(&config(r#"{"pools":{}}"#), [Object::new()]).unwrap_err();
        assert_eq!(
            error.msg,
            "prevResult.pools: invalid type: map, expected a sequence"
        );
    }

    #[test]
    fn entries_are_kept_as_they_are_written() {
        let config = config(r#"{"pools":[{"name":"a"},{"name":"b","vlan":1.50}]}"#);
        let result = Pools::append(&config, [Object::new()]).unwrap();
        let pools = Pools::of_result(&result).unwrap();
        assert_eq!(pools.entries().len(), 3);
        let entries = pools.into_entries();
        assert_eq!(entries[1].get("vlan").unwrap().get(), "1.50");
    }

    #[test]
    fn pools_that_overlap_are_refused_whatever_their_directories() {
        let pools = |list: &str| {
            let config = config(&format!(r#"{{"pools":[{list}]}}"#));
            Pools::of_call(&config)
                .and_then(|pools| pools.read(&config))
                .map(|pools| pools.len())
                .map_err(|error| error.msg)
        };
        let (a, b) = (r#""subnet":"10.0.0.0/24""#, r#""subnet":"10.0.0.0/25""#);
        let overlap = "prevResult.pools[1]: 10.0.0.1-10.0.0.126 overlaps 10.0.0.1-10.0.0.254 of prevResult.pools[0]";
        assert_eq!(pools(&format!("{{{a}}},{{{b}}}")), Err(overlap.to_owned()));
        assert_eq!(
            pools(&format!(r#"{{"name":"blue",{a}}},{{{b}}}"#)),
            Err(overlap.to_owned())
        );
        assert_eq!(
            pools("{}"),
            Err("prevResult.pools[0].ranges is missing, and subnet is, too".to_owned())
        );
        assert_eq!(pools(""), Ok(0));
    }

    #[test]
    fn a_gateway_of_one_pool_is_not_given_from_another_requested_or_not() {
        let read = |keys: &str| {
            let first = format!(r#"{{"subnet":"10.0.0.0/28","rangeEnd":"10.0.0.7"{keys}}}"#);
            let second = r#"{"name":"b","subnet":"10.0.0.0/28","rangeStart":"10.0.0.8","gateway":"10.0.0.4"}"#;
            let config = config(&format!(r#"{{"pools":[{first},{second}]}}"#));
            Pools::of_call(&config)?.read(&config)
        };
        let pools = read("").unwrap();
        let ranges = &pools[0].all()[0].ranges;
        let gives = |ip: &str| ranges.gives(ip.parse().unwrap());
        assert!(!gives("10.0.0.4") && gives("10.0.0.5"));
        assert_eq!(ranges.capacity(), 5);
        let requested = read(r#","requested-ip":"10.0.0.4""#).unwrap_err();
        assert_eq!(
            requested.msg,
            "prevResult.pools[0].requested-ip: 10.0.0.4 is the gateway of 10.0.0.0/28"
        );
    }

    #[test]
    fn the_pools_of_or_are_pools_of_the_call() {
        let read = |or: &str| {
            let entry = format!(r#"{{"name":"a","subnet":"10.0.0.0/29","or":[{or}]}}"#);
            let config = config(&format!(
                r#"{{"pools":[{entry},{{"subnet":"10.2.0.0/29"}}]}}"#
            ));
            let pools = Pools::of_call(&config)?;
            let directories = pools.directories(config.name());
            pools.read(&config).map(|_| directories)
        };
        let directories = read(r#"{"name":"b","space":"red","subnet":"10.1.0.0/29"}"#).unwrap();
        let names: Vec<&str> = directories.iter().map(NetworkName::as_str).collect();
        assert_eq!(names, ["net", "pools", "red"]);
        let overlap = read(r#"{"name":"b","subnet":"10.2.0.0/24"}"#).unwrap_err();
        let expected = "prevResult.pools[1]: 10.2.0.1-10.2.0.6 overlaps 10.2.0.1-10.2.0.254 of prevResult.pools[0].or[0]";
        assert_eq!(overlap.msg, expected);
    }

    #[test]
    fn an_unreadable_pool_hides_no_other_pools_directory() {
        let directories = |pools: &str| {
            let config = config(&format!(r#"{{"pools":[{pools}]}}"#));
            let directories = Pools::of_call(&config).unwrap().directories(config.name());
            let names: Vec<String> = directories.iter().map(ToString::to_string).collect();
            names.join(" ")
        };
        assert_eq!(
            directories(
                r#"{"name":"b","ranges":7},{"name":5},{},{"space":"red"},{"space":"../x"}"#
            ),
            "net pools red"
        );
        assert_eq!(directories(r#"{"name":"../x"}"#), "");
    }
}
