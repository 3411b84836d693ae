//! One range: a subnet, the part of it that addresses are given from, and the
//! gateway.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use crate::interval::{predecessor, successor};
use crate::{Interval, Invalid, parse_subnet};

/// A range as the configuration writes it. An empty text is the same as none,
/// except for the subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RangeConfig {
    /// CIDR, `10.1.0.0/16`; required.
    pub subnet: Option<String>,
    /// The first address to give; the subnet's second by default.
    pub range_start: Option<String>,
    /// The last address to give; by default the subnet's last, less IPv4's
    /// broadcast address.
    pub range_end: Option<String>,
    /// The gateway, which isn't given; the subnet's second address by default.
    pub gateway: Option<String>,
}

/// A range whose values have been checked, by the rules of host-local
/// (`backend/allocator/range.go`, `Canonicalize`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    subnet: IpNet,
    addresses: Interval,
    gateway: IpAddr,
}

impl TryFrom<&RangeConfig> for Range {
    type Error = Invalid;

    /// # Errors
    ///
    /// A subnet that is missing, unreadable, with host bits set or too small;
    /// a start, an end or a gateway that is unreadable; a start or an end
    /// outside of the subnet; a start after the end.
    fn try_from(config: &RangeConfig) -> Result<Self, Invalid> {
        let subnet = subnet(config.subnet.as_deref())?;
        let second = successor(subnet.network());
        let start = address("rangeStart", config.range_start.as_deref())?;
        let end = address("rangeEnd", config.range_end.as_deref())?;
        for (key, ip) in [("rangeStart", start), ("rangeEnd", end)] {
            if let Some(ip) = ip.filter(|ip| !subnet.contains(ip)) {
                return Err(Invalid::new(
                    key,
                    format!("{ip} is not in the subnet {subnet}"),
                ));
            }
        }
        let (start, end) = (start.unwrap_or(second), end.unwrap_or(last_to_give(subnet)));
        let addresses = Interval::new(start, end).ok_or_else(|| {
            Invalid::new("rangeStart", format!("{start} is after rangeEnd, {end}"))
        })?;
        Ok(Self {
            subnet,
            addresses,
            gateway: address("gateway", config.gateway.as_deref())?.unwrap_or(second),
        })
    }
}

impl Range {
    /// The subnet that the addresses are of.
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// The addresses, the gateway among them if it lies there.
    pub fn addresses(&self) -> Interval {
        self.addresses
    }

    /// The gateway, which is never given.
    pub fn gateway(&self) -> IpAddr {
        self.gateway
    }

    /// How many addresses can be given.
    pub fn capacity(&self) -> u128 {
        self.addresses.size() - u128::from(self.addresses.contains(self.gateway))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.fmt(f)
    }
}

fn subnet(text: Option<&str>) -> Result<IpNet, Invalid> {
    let invalid = |reason| Invalid::new("subnet", reason);
    let text = text.ok_or_else(|| invalid("is missing".to_owned()))?;
    let subnet = parse_subnet(text)
        .ok_or_else(|| invalid(format!("{text:?} is no subnet (such as 10.1.0.0/16)")))?;
    if matches!(subnet.addr(), IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Err(invalid(format!(
            "{text:?} is an IPv4 subnet written as IPv6; write it as IPv4"
        )));
    }
    if subnet.prefix_len() > subnet.max_prefix_len() - 2 {
        return Err(invalid(format!(
            "{text:?} is too small to give addresses from"
        )));
    }
    if subnet.addr() != subnet.network() {
        return Err(invalid(format!(
            "{text:?} has host bits set; its network is {}",
            subnet.trunc()
        )));
    }
    Ok(subnet)
}

fn address(key: &str, text: Option<&str>) -> Result<Option<IpAddr>, Invalid> {
    text.filter(|text| !text.is_empty())
        .map(|text| {
            let ip: IpAddr = text
                .parse()
                .map_err(|_| Invalid::new(key, format!("{text:?} is no IP address")))?;
            Ok(ip.to_canonical())
        })
        .transpose()
}

fn last_to_give(subnet: IpNet) -> IpAddr {
    match subnet {
        IpNet::V4(v4) => predecessor(v4.broadcast().into()),
        IpNet::V6(v6) => v6.broadcast().into(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `subnet start end gateway`, of which the last ones may be missing, and
    /// `-` stands for none.
    pub(crate) fn config(text: &str) -> RangeConfig {
        let mut words = text
            .split(' ')
            .map(|word| (word != "-").then(|| word.to_owned()));
        RangeConfig {
            subnet: words.next().flatten(),
            range_start: words.next().flatten(),
            range_end: words.next().flatten(),
            gateway: words.next().flatten(),
        }
    }

    fn range(text: &str) -> Result<Range, Invalid> {
        Range::try_from(&config(text))
    }

    #[test]
    fn the_defaults_are_those_of_host_local() {
        let v4 = range("10.1.0.0/16").unwrap();
        assert_eq!(v4.to_string(), "10.1.0.1-10.1.255.254");
        assert_eq!(v4.gateway().to_string(), "10.1.0.1");
        assert_eq!(v4.capacity(), 65533);
        let v6 = range("fd00:1::/112").unwrap();
        assert_eq!(v6.to_string(), "fd00:1::1-fd00:1::ffff");
        assert_eq!(v6.gateway().to_string(), "fd00:1::1");
    }

    #[test]
    fn what_is_given_is_kept() {
        let it = range("10.0.0.0/24 10.0.0.0 10.0.0.255 192.168.0.1").unwrap();
        assert_eq!(it.to_string(), "10.0.0.0-10.0.0.255");
        assert_eq!(it.gateway().to_string(), "192.168.0.1");
        assert_eq!(it.capacity(), 256);
    }

    #[test]
    fn an_empty_text_is_none_as_in_host_local() {
        let config = RangeConfig {
            subnet: Some("10.0.0.0/24".into()),
            range_start: Some(String::new()),
            range_end: Some(String::new()),
            gateway: Some(String::new()),
        };
        assert_eq!(Range::try_from(&config), range("10.0.0.0/24"));
    }

    #[test]
    fn a_mapped_address_counts_as_ipv4() {
        let it = range("10.0.0.0/24 ::ffff:10.0.0.7").unwrap();
        assert_eq!(it.to_string(), "10.0.0.7-10.0.0.254");
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (text, message) in [
            ("-", "subnet: is missing"),
            (
                "10.0.0/24",
                "subnet: \"10.0.0/24\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                "10.0.0.0",
                "subnet: \"10.0.0.0\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                "010.0.0.0/24",
                "subnet: \"010.0.0.0/24\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                "10.0.0.0/33",
                "subnet: \"10.0.0.0/33\" is no subnet (such as 10.1.0.0/16)",
            ),
            (
                "10.0.0.0/31",
                "subnet: \"10.0.0.0/31\" is too small to give addresses from",
            ),
            (
                "fd00::/127",
                "subnet: \"fd00::/127\" is too small to give addresses from",
            ),
            (
                "10.0.0.5/24",
                "subnet: \"10.0.0.5/24\" has host bits set; its network is 10.0.0.0/24",
            ),
            (
                "::ffff:10.0.0.0/120",
                "subnet: \"::ffff:10.0.0.0/120\" is an IPv4 subnet written as IPv6; write it as IPv4",
            ),
            (
                "10.0.0.0/24 10.0.1.5",
                "rangeStart: 10.0.1.5 is not in the subnet 10.0.0.0/24",
            ),
            (
                "10.0.0.0/24 fd00::5",
                "rangeStart: fd00::5 is not in the subnet 10.0.0.0/24",
            ),
            (
                "10.0.0.0/24 - 10.0.1.5",
                "rangeEnd: 10.0.1.5 is not in the subnet 10.0.0.0/24",
            ),
            ("10.0.0.0/24 x", "rangeStart: \"x\" is no IP address"),
            ("10.0.0.0/24 - x", "rangeEnd: \"x\" is no IP address"),
            ("10.0.0.0/24 - - x", "gateway: \"x\" is no IP address"),
            (
                "10.0.0.0/24 10.0.0.9 10.0.0.5",
                "rangeStart: 10.0.0.9 is after rangeEnd, 10.0.0.5",
            ),
        ] {
            assert_eq!(range(text).unwrap_err().to_string(), message);
        }
    }
}
