//! A pool: the range set that a selector chose, with its name and requests. It
//! yields one address.

use std::net::IpAddr;
use std::slice;

use cni::{Dns, Error, Excerpt, NetworkName, Object};

use crate::pool_name::NAME_MAX;
use crate::pool_ranges::is_set;
use crate::{
    Candidate, PoolName, RangeSet, parse_address, pools_directory, ranges_of_pool, read_routes,
};

/// Longest key of `sticky`, and longest `owner`, in bytes.
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
    /// `owner`: what the address belongs to, instead of an attachment.
    pub owner: Option<String>,
    /// `routes`: an allocator adds them to its answer if it gives an address of the pool.
    pub routes: Vec<Object>,
    /// `dns`: as `routes`.
    pub dns: Dns,
    /// Its place in its overflow: 0 for the entry itself, then those of `or`.
    pub(crate) nth: usize,
    directory: Option<NetworkName>,
    object: Object,
}

impl Pool {
    /// Reads an entry of `pools` without those of its `or`; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: a name or a space that is invalid; no
    /// range, or ranges in both places; an invalid range set; a requested address
    /// that is unreadable, in none of the ranges, or a gateway; a `sticky` or an `owner` of more
    /// than 1024 bytes; invalid `routes` or `dns`.
    pub fn read(path: &str, object: Object) -> Result<Self, Error> {
        let mut pool = Self::without_request(path, object)?;
        Self::read_request(path, slice::from_mut(&mut pool))?;
        Ok(pool)
    }

    /// [`Self::read`], except for the requested address, the sticky key and the owner.
    pub(crate) fn without_request(path: &str, object: Object) -> Result<Self, Error> {
        let dns = object.section(path, "dns")?;
        let (name, space) = name_and_space(path, &object)?;
        let dns = dns.map(|dns| Dns::read(&format!("{path}.dns"), dns));
        Ok(Self {
            ranges: ranges_of_pool(path, &object)?,
            requested: None,
            sticky: None,
            owner: None,
            routes: read_routes(path, &object)?,
            dns: dns.transpose()?.unwrap_or_default(),
            nth: 0,
            directory: directory(name.as_ref(), space.as_ref()),
            name,
            space,
            object,
        })
    }

    /// Reads the requested address, the sticky key and the owner of the first pool of an overflow,
    /// for all of its pools.
    pub(crate) fn read_request(path: &str, pools: &mut [Self]) -> Result<(), Error> {
        let keys = &pools[0].object;
        let sticky = bounded(path, keys, "sticky")?;
        let owner = bounded(path, keys, "owner")?;
        let requested: Option<String> = keys.read(path, "requested-ip")?;
        for pool in pools.iter_mut() {
            pool.sticky.clone_from(&sticky);
            pool.owner.clone_from(&owner);
        }
        if let Some(text) = requested {
            let (at, ip) = requested_of(&text, pools)
                .map_err(|why| Error::config(format!("{path}.requested-ip: {why}")))?;
            pools[at].requested = Some(ip);
        }
        Ok(())
    }

    /// True if an entry of `pools` has ranges. One without is another delegate's to understand.
    pub fn has_ranges(entry: &Object) -> bool {
        ["ranges", "subnet"].iter().any(|key| is_set(entry, key))
    }

    /// The name of its rotation, in the file `last_reserved_ip.<name>`: the pool's name, or its
    /// place among those of an ADD.
    pub fn rotation(&self, place: usize) -> String {
        match (&self.name, self.nth) {
            (Some(name), _) => name.to_string(),
            (None, 0) => place.to_string(),
            (None, nth) => format!("{place}.{nth}"),
        }
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
        let (name, space) = name_and_space(path, entry)?;
        Ok(directory(name.as_ref(), space.as_ref()))
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

    /// True if it has no address to give even if nothing is reserved: all are excluded, and none is
    /// requested.
    pub fn is_empty(&self) -> bool {
        self.requested.is_none() && self.ranges.capacity() == 0
    }

    /// The message that the pool has no address left.
    pub fn exhausted(&self, network: &NetworkName, place: usize) -> String {
        let excluded = match self.ranges.excluded() {
            0 => String::new(),
            excluded => format!(", {excluded} are excluded"),
        };
        format!(
            "{} has no address left: all {} are reserved{excluded}",
            self.describe(network, place),
            self.ranges.capacity()
        )
    }
}

/// The text of `sticky` or `owner`; an empty one counts as none.
fn bounded(path: &str, entry: &Object, key: &str) -> Result<Option<String>, Error> {
    let text: Option<String> = entry.read(path, key)?;
    match text {
        Some(text) if text.len() > LONGEST_STICKY_KEY => Err(Error::config(format!(
            "{path}.{key}: \"{}\" is longer than {LONGEST_STICKY_KEY} bytes",
            Excerpt(&text)
        ))),
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

fn name_and_space(
    path: &str,
    entry: &Object,
) -> Result<(Option<PoolName>, Option<NetworkName>), Error> {
    let space: Option<NetworkName> = entry.read(path, "space")?;
    match space {
        Some(space) if space.as_str().len() > NAME_MAX => Err(Error::config(format!(
            "{path}.space: it is longer than {NAME_MAX} bytes"
        ))),
        space => Ok((entry.read(path, "name")?, space)),
    }
}

fn directory(name: Option<&PoolName>, space: Option<&NetworkName>) -> Option<NetworkName> {
    space.cloned().or_else(|| name.map(|_| pools_directory()))
}

/// The requested address, with the index of the pool that contains it.
fn requested_of(text: &str, pools: &[Pool]) -> Result<(usize, IpAddr), String> {
    let ip = parse_address(text).ok_or_else(|| format!("{text:?} is no IP address"))?;
    let at = pools.iter().position(|pool| pool.ranges.contains(ip));
    let at = at.ok_or_else(|| {
        let ranges: Vec<String> = pools.iter().map(|pool| pool.ranges.to_string()).collect();
        format!("{ip} is not in the pool, {}", ranges.join(" or "))
    })?;
    let ip = pools[at].ranges.in_family(ip);
    let mut gateways = pools.iter().flat_map(|pool| pool.ranges.gateways());
    match gateways.find(|(gateway, _)| *gateway == ip) {
        Some((_, subnet)) => Err(format!("{ip} is the gateway of {subnet}")),
        None => Ok((at, ip)),
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
        assert_eq!(read.object.get("vlan").unwrap().get(), "1.50");
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
    fn a_sticky_key_and_an_owner_have_at_most_1024_bytes() {
        for key in ["sticky", "owner"] {
            let with = |length: usize| {
                let text = "k".repeat(length);
                pool(&format!(r#"{{"subnet":"10.0.0.0/24","{key}":"{text}"}}"#))
            };
            assert!(with(1024).is_ok());
            let refused = with(1025).unwrap_err();
            assert!(refused.starts_with(&format!("it.{key}: ")), "{refused}");
            assert!(refused.ends_with("is longer than 1024 bytes"), "{refused}");
        }
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
