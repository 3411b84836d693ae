//! A pool: a range set as a selector hands it to an allocator. It yields one
//! address.

use std::net::IpAddr;

use serde::Deserialize;

use crate::{Invalid, Range, RangeConfig, RangeSet, parse_subnet};

/// An entry of a result's `pools`, as it is written.
///
/// Its ranges stand in `ranges`, as in host-local's configuration; a pool of
/// one range may carry the range's keys itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PoolConfig {
    /// A pool that is known by name, across networks.
    pub name: Option<String>,
    /// The ranges.
    pub ranges: Option<Vec<RangeConfig>>,
    /// This address or none.
    #[serde(rename = "requested-ip")]
    pub requested_ip: Option<String>,
    /// The only range's subnet.
    pub subnet: Option<String>,
    /// The only range's start.
    #[serde(rename = "rangeStart")]
    pub range_start: Option<String>,
    /// The only range's end.
    #[serde(rename = "rangeEnd")]
    pub range_end: Option<String>,
    /// The only range's gateway.
    pub gateway: Option<String>,
}

/// A pool whose values have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its ranges.
    pub ranges: RangeSet,
    /// The address that is asked for: one of the ranges', and no gateway.
    pub requested: Option<IpAddr>,
}

impl TryFrom<PoolConfig> for Pool {
    type Error = Invalid;

    /// # Errors
    ///
    /// No range, or ranges in both places; a range set that is wrong; a
    /// requested address that is unreadable, in none of the ranges, or a
    /// gateway.
    fn try_from(config: PoolConfig) -> Result<Self, Invalid> {
        let inline = RangeConfig {
            subnet: config.subnet,
            range_start: config.range_start,
            range_end: config.range_end,
            gateway: config.gateway,
        };
        let ranges = match config.ranges {
            Some(_) if inline != RangeConfig::default() => {
                return Err(Invalid::new(
                    "ranges",
                    "stands beside a range's own keys; a pool has the one or the other",
                ));
            }
            Some(ranges) => {
                RangeSet::try_from(ranges.as_slice()).map_err(|e| e.within("ranges"))?
            }
            None if inline.subnet.is_none() => {
                return Err(Invalid::new("ranges", "is missing, and subnet is, too"));
            }
            None => Range::try_from(&inline)?.into(),
        };
        let requested = config
            .requested_ip
            .map(|text| requested(&text, &ranges).map_err(|e| Invalid::new("requested-ip", e)))
            .transpose()?;
        Ok(Self {
            name: config.name,
            ranges,
            requested,
        })
    }
}

fn requested(text: &str, ranges: &RangeSet) -> Result<IpAddr, String> {
    let ip = parse_address(text).ok_or_else(|| format!("{text:?} is no IP address"))?;
    let range = ranges
        .range_of(ip)
        .ok_or_else(|| format!("{ip} is not in the pool, {ranges}"))?;
    if ip == range.gateway() {
        return Err(format!("{ip} is the gateway of {}", range.subnet()));
    }
    Ok(ip)
}

/// Reads `<ip>[/<prefix>]`, as the CNI conventions write requested addresses;
/// the prefix is checked and dropped, as host-local does.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = match parse_subnet(text) {
        Some(net) => net.addr(),
        None => text.parse().ok()?,
    };
    Some(ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(json: &str) -> Result<Pool, Invalid> {
        Pool::try_from(serde_json::from_str::<PoolConfig>(json).unwrap())
    }

    #[test]
    fn a_pool_has_its_ranges_in_a_list_or_one_in_itself() {
        let listed = pool(r#"{"ranges":[{"subnet":"10.0.0.0/24"}],"else":1}"#).unwrap();
        let own = pool(r#"{"subnet":"10.0.0.0/24","else":1}"#).unwrap();
        assert_eq!(listed, own);
    }

    #[test]
    fn name_and_request_are_read() {
        let it =
            pool(r#"{"name":"blue","subnet":"2001:db8:1::/64","requested-ip":"2001:db8:1::77"}"#)
                .unwrap();
        assert_eq!(it.name.as_deref(), Some("blue"));
        assert_eq!(it.requested, Some("2001:db8:1::77".parse().unwrap()));
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (json, message) in [
            ("{}", "ranges: is missing, and subnet is, too"),
            (
                r#"{"ranges":[],"subnet":"10.0.0.0/24"}"#,
                "ranges: stands beside a range's own keys; a pool has the one or the other",
            ),
            (r#"{"ranges":[]}"#, "ranges: the range set is empty"),
            (
                r#"{"ranges":[{"subnet":"x"}]}"#,
                "ranges[0].subnet: \"x\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","requested-ip":"x"}"#,
                "requested-ip: \"x\" is no IP address",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","requested-ip":"10.0.1.1"}"#,
                "requested-ip: 10.0.1.1 is not in the pool, 10.0.0.1-10.0.0.254",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","requested-ip":"10.0.0.1"}"#,
                "requested-ip: 10.0.0.1 is the gateway of 10.0.0.0/24",
            ),
        ] {
            assert_eq!(pool(json).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn requested_addresses_may_carry_a_prefix() {
        let ip = |text: &str| parse_address(text).map(|ip| ip.to_string());
        assert_eq!(ip("10.0.0.5/24").as_deref(), Some("10.0.0.5"));
        assert_eq!(ip("::ffff:10.0.0.5").as_deref(), Some("10.0.0.5"));
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
