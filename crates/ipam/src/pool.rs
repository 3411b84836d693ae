//! A pool: the range set that a selector chose, with its name and requests. It
//! yields one address.

use std::net::IpAddr;

use cni::{Error, Excerpt, NetworkName, Object, code};
use serde_json::value::RawValue;

use crate::pool_name::NAME_MAX;
use crate::pool_ranges::is_set;
use crate::{Candidate, PoolName, RangeSet, parse_address, pool_ranges, pools_directory};

/// Longest key of `sticky`, in bytes.
pub const LONGEST_STICKY_KEY: usize = 1024;

/// An entry of a result's `pools`, valid.
///
/// Its ranges are in `ranges`, as in host-local's configuration; a pool of one
/// range may carry the range's keys itself.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name, if it has one: networks share a named pool.
    pub name: Option<PoolName>,
    /// `space`: the directory of its reservations, and of those of all other pools with this
    /// space. Addresses of different spaces are different addresses.
    pub space: Option<NetworkName>,
    /// Its ranges, without the addresses that the pool or a range excludes.
    pub ranges: RangeSet,
    /// `requested-ip`: this address or none. One of the ranges', and no gateway; it
    /// may be excluded.
    pub requested: Option<IpAddr>,
    /// `sticky`: the search for a free address begins at the place that this key's hash gives.
    pub sticky: Option<String>,
    directory: Option<NetworkName>,
    object: Object,
}

impl Pool {
    /// Reads an entry of `pools`; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: a name or a space that is invalid; no
    /// range, or ranges in both places; an invalid range set; a requested address
    /// that is unreadable, in none of the ranges, or a gateway; a `sticky` of more than
    /// 1024 bytes.
    pub fn read(path: &str, object: Object) -> Result<Self, Error> {
        let ranges = pool_ranges::read(path, &object)?;
        let requested: Option<String> = object.read(path, "requested-ip")?;
        let of_ranges = |text: String| {
            requested_of(&text, &ranges)
                .map_err(|why| Error::config(format!("{path}.requested-ip: {why}")))
        };
        let requested = requested.map(of_ranges).transpose()?;
        let sticky: Option<String> = object.read(path, "sticky")?;
        if let Some(key) = sticky.as_ref().filter(|key| key.len() > LONGEST_STICKY_KEY) {
            return Err(Error::config(format!(
                "{path}.sticky: \"{}\" is longer than {LONGEST_STICKY_KEY} bytes",
                Excerpt(key)
            )));
        }
        Ok(Self {
            name: object.read(path, "name")?,
            space: space(path, &object)?,
            directory: Self::directory_of(path, &object)?,
            ranges,
            requested,
            sticky: sticky.filter(|key| !key.is_empty()),
            object,
        })
    }

    /// The value of any key, as the selector wrote it.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.object.get(key)
    }

    /// True if an entry of `pools` has ranges. One without is another delegate's to understand.
    pub fn has_ranges(entry: &Object) -> bool {
        ["ranges", "subnet"].iter().any(|key| is_set(entry, key))
    }

    /// The name of its rotation, in the file `last_reserved_ip.<name>`: the pool's name, or its
    /// place among those of an ADD.
    pub fn rotation(&self, place: usize) -> String {
        let name = self.name.as_ref();
        name.map_or_else(|| place.to_string(), ToString::to_string)
    }

    /// The addresses that it gives, in the order in which they are tried: from the sticky key's
    /// place, or after the address given last.
    pub fn candidates(&self, last: Option<IpAddr>) -> Vec<Candidate<'_>> {
        match &self.sticky {
            Some(key) => self.ranges.rotation_of_key(key),
            None => self.ranges.rotation(last),
        }
    }

    /// The name of the directory of its reservations: its space; else that of all named pools,
    /// if it has a name; else the network's.
    pub fn directory<'a>(&'a self, network: &'a NetworkName) -> &'a NetworkName {
        self.directory.as_ref().unwrap_or(network)
    }

    /// The directory of an entry of `pools`; `None` for the network's. Only `name` and `space`
    /// are read.
    pub(crate) fn directory_of(path: &str, entry: &Object) -> Result<Option<NetworkName>, Error> {
        if let Some(space) = space(path, entry)? {
            return Ok(Some(space));
        }
        let name: Option<PoolName> = entry.read(path, "name")?;
        Ok(name.map(|_| pools_directory()))
    }

    /// The pool by name, for people; without one, by its place among those of an ADD on this
    /// network.
    pub fn describe(&self, network: &NetworkName, place: usize) -> String {
        let Self { name, ranges, .. } = self;
        match name {
            Some(name) => format!("pool {name} ({ranges})"),
            None => format!("pool {place} of network {network} ({ranges})"),
        }
    }

    /// Refuses a pool that has no address to give even if nothing is reserved.
    ///
    /// # Errors
    ///
    /// Code 50: all of its addresses are excluded, and none is requested.
    pub fn refuse_empty(&self, network: &NetworkName, place: usize) -> Result<(), Error> {
        if self.requested.is_none() && self.ranges.capacity() == 0 {
            return Err(self.exhausted(network, place, code::UNAVAILABLE));
        }
        Ok(())
    }

    /// The error, of this code, that the pool has no address left.
    pub fn exhausted(&self, network: &NetworkName, place: usize, code: u64) -> Error {
        let excluded = match self.ranges.excluded() {
            0 => String::new(),
            excluded => format!(", {excluded} are excluded"),
        };
        Error::new(
            code,
            format!(
                "{} has no address left: all {} are reserved{excluded}",
                self.describe(network, place),
                self.ranges.capacity()
            ),
        )
    }
}

fn space(path: &str, entry: &Object) -> Result<Option<NetworkName>, Error> {
    let space: Option<NetworkName> = entry.read(path, "space")?;
    match space {
        Some(space) if space.as_str().len() > NAME_MAX => Err(Error::config(format!(
            "{path}.space: it is longer than {NAME_MAX} bytes"
        ))),
        space => Ok(space),
    }
}

fn requested_of(text: &str, ranges: &RangeSet) -> Result<IpAddr, String> {
    let ip = parse_address(text).ok_or_else(|| format!("{text:?} is no IP address"))?;
    let range = ranges
        .range_of(ip)
        .ok_or_else(|| format!("{ip} is not in the pool, {ranges}"))?;
    let ip = ranges.in_family(ip);
    if ip == range.gateway() {
        return Err(format!("{ip} is the gateway of {}", range.subnet()));
    }
    Ok(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(json: &str) -> Result<Pool, String> {
        Pool::read("it", serde_json::from_str(json).unwrap()).map_err(|error| error.msg)
    }

    #[test]
    fn a_pool_has_its_ranges_in_a_list_or_one_in_itself() {
        let listed = pool(r#"{"ranges":[{"subnet":"10.0.0.0/24","exclude":["10.0.0.5"]}]}"#);
        let own = pool(r#"{"subnet":"10.0.0.0/24","exclude":["10.0.0.5"]}"#);
        let both = pool(r#"{"ranges":[{"subnet":"10.0.0.0/24"}],"exclude":["10.0.0.5"]}"#);
        let listed = listed.unwrap().ranges;
        assert_eq!(listed, own.unwrap().ranges);
        assert_eq!(listed, both.unwrap().ranges);
        assert_eq!(listed.capacity(), 252);
    }

    #[test]
    fn each_key_is_read_and_unknown_ones_are_kept() {
        let json = r#"{"name":"blue","subnet":"2001:db8:1::/64","requested-ip":"2001:db8:1::77","sticky":"prod/db-0","vlan":1.50}"#;
        let read = pool(json).unwrap();
        assert_eq!(read.name.as_ref().map(PoolName::as_str), Some("blue"));
        assert_eq!(read.requested, Some("2001:db8:1::77".parse().unwrap()));
        assert_eq!(read.sticky.as_deref(), Some("prod/db-0"));
        assert_eq!(read.get("vlan").unwrap().get(), "1.50");
    }

    #[test]
    fn a_pools_directory_is_its_space_else_that_of_named_pools_else_the_networks() {
        let network = "net".parse().unwrap();
        for (keys, directory) in [
            ("", "net"),
            (r#","name":"blue""#, "pools"),
            (r#","name":"blue","space":"red""#, "red"),
            (r#","space":"red""#, "red"),
        ] {
            let pool = pool(&format!(r#"{{"subnet":"10.0.0.0/24"{keys}}}"#)).unwrap();
            assert_eq!(pool.directory(&network).as_str(), directory);
        }
    }

    #[test]
    fn a_named_pool_has_one_rotation_wherever_it_is_in_the_list() {
        let network = "net".parse().unwrap();
        for (keys, rotation, text) in [
            ("", "2", "pool 2 of network net (10.0.0.1-10.0.0.2)"),
            (r#","name":"blue""#, "blue", "pool blue (10.0.0.1-10.0.0.2)"),
        ] {
            let pool = pool(&format!(r#"{{"subnet":"10.0.0.0/30"{keys}}}"#)).unwrap();
            assert_eq!(pool.rotation(2), rotation);
            assert_eq!(pool.describe(&network, 2), text);
        }
    }

    #[test]
    fn a_sticky_key_decides_where_the_search_begins() {
        let pool = |keys: &str| pool(&format!(r#"{{"subnet":"10.0.0.0/24"{keys}}}"#)).unwrap();
        let last = Some("10.0.0.9".parse().unwrap());
        let first = |pool: &Pool| pool.candidates(last)[0].addresses.first().to_string();
        assert_eq!(first(&pool("")), "10.0.0.10");
        let sticky = pool(r#","sticky":"prod/db-0""#);
        let place = sticky.ranges.place_of_key("prod/db-0").unwrap();
        assert_eq!(first(&sticky), place.to_string());
    }

    #[test]
    fn a_sticky_key_has_at_most_1024_bytes() {
        let sticky = |length: usize| {
            let key = "k".repeat(length);
            pool(&format!(r#"{{"subnet":"10.0.0.0/24","sticky":"{key}"}}"#))
        };
        assert!(sticky(1024).is_ok());
        let refused = sticky(1025).unwrap_err();
        assert!(refused.ends_with("is longer than 1024 bytes"), "{refused}");
    }

    #[test]
    fn an_excluded_address_may_be_requested() {
        let json =
            r#"{"subnet":"10.0.0.0/24","exclude":["10.0.0.5"],"requested-ip":"10.0.0.5/24"}"#;
        let read = pool(json).unwrap();
        assert_eq!(read.requested, Some("10.0.0.5".parse().unwrap()));
    }

    #[test]
    fn a_requested_address_is_of_its_pools_family() {
        let requested = |subnet: &str, ip: &str| {
            let json = format!(r#"{{"subnet":"{subnet}","requested-ip":"{ip}"}}"#);
            pool(&json).unwrap().requested.unwrap().to_string()
        };
        assert_eq!(requested("10.0.0.0/24", "::ffff:10.0.0.5"), "10.0.0.5");
        assert_eq!(requested("::/64", "::ffff:10.0.0.5"), "::ffff:10.0.0.5");
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (json, message) in [
            ("{}", "it.ranges is missing, and subnet is, too"),
            (
                r#"{"ranges":[],"subnet":"10.0.0.0/24"}"#,
                "it has ranges and a range's own keys; a pool has the one or the other",
            ),
            (r#"{"ranges":[]}"#, "it.ranges: the range set is empty"),
            (
                r#"{"ranges":[{"subnet":"x"}]}"#,
                "it.ranges[0].subnet: \"x\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                r#"{"ranges":[{"subnet":"10.0.0.0/24"}],"exclude":["x"]}"#,
                "it.exclude[0]: \"x\" is no address, no subnet and no interval of addresses",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","requested-ip":"x"}"#,
                "it.requested-ip: \"x\" is no IP address",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","requested-ip":"10.0.1.1"}"#,
                "it.requested-ip: 10.0.1.1 is not in the pool, 10.0.0.1-10.0.0.254",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","requested-ip":"10.0.0.1"}"#,
                "it.requested-ip: 10.0.0.1 is the gateway of 10.0.0.0/24",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","name":"a/b"}"#,
                "it.name: \"a/b\" can't name a pool: only letters, digits (ASCII), underscores, dots and hyphens are allowed",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","name":"7"}"#,
                "it.name: \"7\" can't name a pool: it has only digits",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","name":"a","NAME":"b"}"#,
                "it.name is there as \"NAME\", too; write one of the two",
            ),
        ] {
            assert_eq!(pool(json).unwrap_err(), message);
        }
    }
}
