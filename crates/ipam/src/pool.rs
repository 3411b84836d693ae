//! A pool: the range set that a selector chose, with its name and requests. It
//! yields one address.

use std::net::IpAddr;

use cni::{Error, Excerpt, NetworkName, Object};
use serde_json::value::RawValue;

use crate::range::{RANGE_KEYS, refuse_unclear_keys};
use crate::{PoolName, RangeSet, exclude, parse_subnet};

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
    /// Its ranges, without the addresses that the pool or a range excludes.
    pub ranges: RangeSet,
    /// `requested-ip`: this address or none. One of the ranges', and no gateway; it
    /// may be excluded.
    pub requested: Option<IpAddr>,
    /// `sticky`: the address that this key was given last is preferred.
    pub sticky: Option<String>,
    object: Object,
}

impl Pool {
    /// Reads an entry of `pools`; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: a name that can't be a directory's; no
    /// range, or ranges in both places; an invalid range set; a requested address
    /// that is unreadable, in none of the ranges, or a gateway; a `sticky` of more than
    /// 1024 bytes.
    pub fn read(path: &str, object: Object) -> Result<Self, Error> {
        refuse_unclear_keys(path, object.keys())?;
        let ranges = ranges(path, &object)?;
        let requested: Option<String> = object.read(path, "requested-ip")?;
        let requested = requested
            .map(|text| {
                requested_of(&text, &ranges)
                    .map_err(|why| Error::config(format!("{path}.requested-ip: {why}")))
            })
            .transpose()?;
        let sticky: Option<String> = object.read(path, "sticky")?;
        if let Some(key) = sticky.as_ref().filter(|key| key.len() > LONGEST_STICKY_KEY) {
            return Err(Error::config(format!(
                "{path}.sticky: \"{}\" is longer than {LONGEST_STICKY_KEY} bytes",
                Excerpt(key)
            )));
        }
        Ok(Self {
            name: object.read(path, "name")?,
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

    /// The index in the name of the file with the address that was given last,
    /// `last_reserved_ip.<index>`, of the pool at this place among those of an ADD. A pool
    /// with a separate directory has one rotation, wherever it is in the list.
    pub fn rotation_index(&self, network: &NetworkName, place: usize) -> usize {
        if self.directory(network) == network {
            place
        } else {
            0
        }
    }

    /// The name of the directory of its reservations: the pool's own, or that of the
    /// network.
    pub fn directory<'a>(&'a self, network: &'a NetworkName) -> &'a NetworkName {
        self.name.as_ref().map_or(network, PoolName::directory)
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

fn ranges(path: &str, object: &Object) -> Result<RangeSet, Error> {
    // `exclude` may come with either.
    let mut own = RANGE_KEYS.iter().filter(|key| **key != exclude::KEY);
    let own = own.any(|key| object.get(key).is_some_and(|raw| raw.get() != "null"));
    match object.read::<Vec<Object>>(path, "ranges")? {
        Some(_) if own => Err(Error::config(format!(
            "{path}.ranges stands beside a range's own keys; a pool has the one or the other"
        ))),
        Some(ranges) => {
            let excluded = exclude::read(path, object)?;
            RangeSet::read(&format!("{path}.ranges"), &ranges, &excluded)
        }
        None if !own => Err(Error::config(format!(
            "{path}.ranges is missing, and subnet is, too"
        ))),
        None => RangeSet::of_one(path, object),
    }
}

/// The ranges of a pool, as they are written: its list, or one of its own keys; none if it
/// is known only by its name. What the pool excludes is not theirs.
///
/// # Errors
///
/// Code 7 if `ranges` is no list of objects; `path` is the pool's name in messages.
pub fn range_objects(path: &str, pool: &Object) -> Result<Vec<Object>, Error> {
    if let Some(ranges) = pool.read(path, "ranges")? {
        return Ok(ranges);
    }
    let mut own = Object::new();
    for key in RANGE_KEYS.iter().filter(|key| **key != exclude::KEY) {
        if let Some(value) = pool.get(key) {
            own.set(key, value);
        }
    }
    let is_range = pool.get("subnet").is_some_and(|raw| raw.get() != "null");
    Ok(Vec::from_iter(is_range.then_some(own)))
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

/// Reads `<ip>[/<prefix>]`, as the CNI conventions write requested addresses; the
/// prefix is checked and dropped, as host-local does.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    match parse_subnet(text) {
        Some(net) => Some(net.addr()),
        None => text.parse().ok(),
    }
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
    fn a_named_pool_has_a_directory_of_its_own() {
        let network = "net".parse().unwrap();
        let directory = |json: &str| pool(json).unwrap().directory(&network).to_string();
        assert_eq!(directory(r#"{"subnet":"10.0.0.0/24"}"#), "net");
        assert_eq!(
            directory(r#"{"subnet":"10.0.0.0/24","name":"blue"}"#),
            "blue"
        );
    }

    #[test]
    fn a_named_pool_has_one_rotation_wherever_it_is_in_the_list() {
        let network = "net".parse().unwrap();
        for (json, index, text) in [
            (
                r#"{"subnet":"10.0.0.0/30"}"#,
                2,
                "pool 2 of network net (10.0.0.1-10.0.0.2)",
            ),
            (
                r#"{"subnet":"10.0.0.0/30","name":"blue"}"#,
                0,
                "pool blue (10.0.0.1-10.0.0.2)",
            ),
        ] {
            let pool = pool(json).unwrap();
            assert_eq!(pool.rotation_index(&network, 2), index);
            assert_eq!(pool.describe(&network, 2), text);
        }
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
    fn ranges_are_read_as_they_are_written() {
        let ranges = |json: &str| {
            let pool = serde_json::from_str(json).unwrap();
            let ranges = range_objects("it", &pool).map_err(|error| error.msg);
            ranges.map(|ranges| serde_json::to_string(&ranges).unwrap())
        };
        for (json, expected) in [
            (
                r#"{"ranges":[{"subnet":"x"}],"exclude":["y"]}"#,
                r#"[{"subnet":"x"}]"#,
            ),
            (
                r#"{"name":"n","subnet":"x","gateway":"g","exclude":["y"]}"#,
                r#"[{"subnet":"x","gateway":"g"}]"#,
            ),
            (r#"{"name":"n"}"#, "[]"),
            (r#"{"name":"n","subnet":null}"#, "[]"),
        ] {
            assert_eq!(ranges(json).as_deref(), Ok(expected), "{json}");
        }
        assert!(
            ranges(r#"{"ranges":1}"#)
                .unwrap_err()
                .starts_with("it.ranges")
        );
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
                "it.ranges stands beside a range's own keys; a pool has the one or the other",
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
                r#"{"subnet":"10.0.0.0/24","name":"a","name":"b"}"#,
                "it.name occurs twice",
            ),
        ] {
            assert_eq!(pool(json).unwrap_err(), message);
        }
    }

    #[test]
    fn requested_addresses_may_carry_a_prefix() {
        let ip = |text: &str| parse_address(text).map(|ip| ip.to_string());
        assert_eq!(ip("10.0.0.5/24").as_deref(), Some("10.0.0.5"));
        assert_eq!(ip("fd00::5").as_deref(), Some("fd00::5"));
        for bad in [
            "",
            "10.0.0",
            "10.0.0.5/33",
            "10.0.0.5/",
            "/24",
            "010.0.0.1",
            "010.0.0.1/24",
            "fe80::1%eth0",
        ] {
            assert_eq!(ip(bad), None, "{bad:?}");
        }
    }
}
