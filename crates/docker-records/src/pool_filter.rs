//! A selector that the daemon adds after the selectors of a configuration: it passes on only the
//! pool that Docker requests.
//!
//! Docker asks for an address of one pool at a time, and a chain gives one of each pool. An
//! unnamed pool gets the configuration's name as its space, so that Docker's networks and the
//! configuration's own keep their reservations in one directory.

use std::iter;
use std::net::IpAddr;

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply};
use ipam::{ADDRESS_KEYS, IpNet, Range, overflow};
use serde::{Deserialize, Serialize};

/// The key of the network configuration that names the requested pool.
pub const KEY: &str = "dockerPool";

/// The name of the selector.
pub const NAME: &str = "ipam-ds-docker";

/// The requested pool.
#[derive(Debug, Serialize, Deserialize)]
pub struct RequestedPool {
    /// Its subnet.
    pub subnet: IpNet,
    /// The part of it that addresses are given from.
    #[serde(default)]
    pub range: Option<IpNet>,
    /// The address that is requested.
    #[serde(default)]
    pub requested: Option<IpAddr>,
    /// The directory of the reservations of an unnamed pool.
    pub directory: String,
}

/// The selector.
pub struct PoolFilter;

impl PoolFilter {
    fn reply(call: &Call<'_>) -> Result<Reply, Error> {
        let mut result = call.config.prev_result()?.unwrap_or_default();
        let Some(wanted) = call.config.read::<RequestedPool>(KEY)? else {
            return Ok(Reply::Result(result));
        };
        let pools = ipam::Pools::of_result(&result)?.into_entries();
        let filtered = pools.iter().map(|pool| filtered(pool, &wanted));
        match filtered.filter_map(Result::transpose).next().transpose()? {
            Some(pool) => result.set_other("pools", &[pool]),
            None if pools.is_empty() => {}
            None => {
                let why = format!("the selectors chose no pool of {}", wanted.subnet);
                return Err(Error::config(why));
            }
        }
        Ok(Reply::Result(result))
    }
}

impl Plugin for PoolFilter {
    fn about(&self) -> About {
        About {
            name: NAME,
            ..cni::about!()
        }
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Self::reply(call)
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        // An error is ignored: without a reply, the next delegate gets the recorded result.
        Ok(Self::reply(call).unwrap_or(Reply::Nothing))
    }
}

/// The ranges of a pool, each as its JSON object and parsed.
///
/// # Errors
///
/// Code 7 for an invalid one.
pub fn ranges(pool: &Object) -> Result<Vec<(Object, Range)>, Error> {
    let written = ipam::range_objects("pool", pool)?.into_iter();
    let read = |range: Object| Ok((range.clone(), Range::read("pool", &range)?));
    written.map(read).collect()
}

/// The wanted pool, from the ranges of an entry's pools that are in its subnet; `None` if there are
/// none.
fn filtered(entry: &Object, wanted: &RequestedPool) -> Result<Option<Object>, Error> {
    let mut left = Vec::new();
    for pool in iter::once(entry.clone()).chain(overflow::objects("pool", entry)?) {
        left.extend(in_subnet(pool, wanted)?);
    }
    if left.is_empty() {
        return Ok(None);
    }
    let mut pool = left.remove(0);
    pool.remove("or");
    overflow::set_objects(&mut pool, &left);
    if let Some(sticky) = entry.get("sticky") {
        pool.set("sticky", sticky);
    }
    let earlier: Option<String> = entry.read("pool", "requested-ip")?;
    let earlier = earlier.as_deref().and_then(ipam::parse_address);
    if let Some(ip) = wanted.requested.or(earlier) {
        if let Some(earlier) = earlier.filter(|earlier| *earlier != ip) {
            let why = format!("{ip} is requested, and the selectors give {earlier}");
            return Err(Error::config(why));
        }
        pool.set("requested-ip", &ip);
    }
    Ok(Some(pool))
}

/// A pool with its ranges that are in the wanted subnet; `None` if there are none.
fn in_subnet(mut pool: Object, wanted: &RequestedPool) -> Result<Option<Object>, Error> {
    let mut left = Vec::new();
    for (mut written, range) in ranges(&pool)? {
        if range.subnet() != wanted.subnet {
            continue;
        }
        if let Some(part) = wanted.range {
            let Some(both) = range.addresses().intersection(part.into()) else {
                continue;
            };
            written.set("rangeStart", &both.first().to_string());
            written.set("rangeEnd", &both.last().to_string());
        }
        left.push(written);
    }
    if left.is_empty() {
        return Ok(None);
    }
    for key in ADDRESS_KEYS {
        pool.remove(key);
    }
    pool.set("ranges", &left);
    let is_missing = |key: &str| pool.get(key).is_none_or(|raw| raw.get() == "null");
    if is_missing("name") && is_missing("space") {
        pool.set("space", &wanted.directory);
    }
    Ok(Some(pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{Environment, NetworkConfig, SpecVersion};

    fn filter(wanted: &str, pools: &str) -> Result<String, String> {
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"n","{KEY}":{wanted},"prevResult":{{"pools":{pools}}}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let environment = Environment::default();
        let reply = PoolFilter::reply(&Call::new(config, &environment));
        let Reply::Result(result) = reply.map_err(|error| error.msg)? else {
            unreachable!()
        };
        let json = result.to_raw(SpecVersion::V1_0_0);
        let result: serde_json::Value = serde_json::from_str(json.get()).unwrap();
        Ok(result["pools"].to_string())
    }

    #[test]
    fn of_all_pools_the_wanted_one_is_left_in_the_configurations_directory() {
        let pools = r#"[{"subnet":"fd00::/64"},{"subnet":"10.1.0.0/16","gateway":"10.1.0.9","exclude":["10.1.0.5"],"vlan":7}]"#;
        assert_eq!(
            filter(r#"{"subnet":"10.1.0.0/16","directory":"web"}"#, pools).unwrap(),
            r#"[{"exclude":["10.1.0.5"],"ranges":[{"gateway":"10.1.0.9","subnet":"10.1.0.0/16"}],"space":"web","vlan":7}]"#
        );
    }

    #[test]
    fn of_a_pool_and_those_behind_it_what_is_in_the_subnet_is_left() {
        let pools = r#"[{"name":"a","subnet":"10.9.0.0/16","sticky":"k","or":[
            {"name":"b","subnet":"10.1.0.0/16","rangeEnd":"10.1.0.9"},
            {"name":"c","subnet":"10.1.0.0/16","rangeStart":"10.1.1.0"}]}]"#;
        assert_eq!(
            filter(r#"{"subnet":"10.1.0.0/16","directory":"web"}"#, pools).unwrap(),
            concat!(
                r#"[{"name":"b","or":[{"name":"c","ranges":[{"rangeStart":"10.1.1.0","subnet":"10.1.0.0/16"}]}],"#,
                r#""ranges":[{"rangeEnd":"10.1.0.9","subnet":"10.1.0.0/16"}],"sticky":"k"}]"#
            )
        );
    }

    #[test]
    fn of_a_range_set_the_ranges_of_the_subnet_are_left() {
        let pools =
            r#"[{"name":"db","ranges":[{"subnet":"10.1.0.0/24"},{"subnet":"10.2.0.0/24"}]}]"#;
        assert_eq!(
            filter(r#"{"subnet":"10.2.0.0/24","directory":"web"}"#, pools).unwrap(),
            r#"[{"name":"db","ranges":[{"subnet":"10.2.0.0/24"}]}]"#
        );
    }

    #[test]
    fn a_sub_pool_bounds_the_range() {
        let wanted = r#"{"subnet":"10.1.0.0/16","range":"10.1.5.0/24","directory":"web"}"#;
        let filter = |pools| filter(wanted, pools).map_err(|_| ());
        assert_eq!(
            filter(r#"[{"subnet":"10.1.0.0/16"}]"#).unwrap(),
            r#"[{"ranges":[{"rangeEnd":"10.1.5.255","rangeStart":"10.1.5.0","subnet":"10.1.0.0/16"}],"space":"web"}]"#
        );
        assert_eq!(
            filter(r#"[{"subnet":"10.1.0.0/16","rangeStart":"10.1.5.9"}]"#).unwrap(),
            r#"[{"ranges":[{"rangeEnd":"10.1.5.255","rangeStart":"10.1.5.9","subnet":"10.1.0.0/16"}],"space":"web"}]"#
        );
        assert_eq!(
            filter(r#"[{"subnet":"10.1.0.0/16","rangeStart":"10.1.6.9"}]"#),
            Err(())
        );
    }

    #[test]
    fn a_requested_address_gives_way_to_no_other() {
        let wanted = r#"{"subnet":"10.1.0.0/16","requested":"10.1.0.7","directory":"web"}"#;
        let with = |pool: &str| filter(wanted, &format!("[{pool}]"));
        let given = with(r#"{"subnet":"10.1.0.0/16"}"#).unwrap();
        assert!(given.contains(r#""requested-ip":"10.1.0.7""#), "{given}");
        assert!(with(r#"{"subnet":"10.1.0.0/16","requested-ip":"10.1.0.7/16"}"#).is_ok());
        assert_eq!(
            with(r#"{"subnet":"10.1.0.0/16","requested-ip":"10.1.0.8"}"#).unwrap_err(),
            "10.1.0.7 is requested, and the selectors give 10.1.0.8"
        );
    }

    #[test]
    fn pools_without_the_wanted_one_are_refused_and_no_pools_are_left_alone() {
        let wanted = r#"{"subnet":"10.1.0.0/16","directory":"web"}"#;
        assert_eq!(
            filter(wanted, r#"[{"subnet":"10.2.0.0/16"}]"#).unwrap_err(),
            "the selectors chose no pool of 10.1.0.0/16"
        );
        assert_eq!(filter(wanted, "null").unwrap(), "null");
    }
}
