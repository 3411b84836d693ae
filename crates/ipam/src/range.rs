//! One range: a subnet, the part of it that addresses are given from, the gateway and
//! the excluded addresses.

use std::net::IpAddr;

use cni::{Error, Object};
use derive_more::Display;
use ipnet::IpNet;

use crate::interval::{in_family, predecessor, successor};
use crate::{Interval, exclude, parse_subnet};

/// The keys of a range's addresses, as the network configuration and a result's `pools` have
/// them. An empty text counts as missing, except for the subnet.
pub const ADDRESS_KEYS: [&str; 4] = ["subnet", "rangeStart", "rangeEnd", "gateway"];

/// Value of `gateway` for a range without one.
pub const NO_GATEWAY: &str = "none";

/// All keys of a range: [`ADDRESS_KEYS`] and `exclude`.
pub const RANGE_KEYS: [&str; 5] = {
    let [subnet, start, end, gateway] = ADDRESS_KEYS;
    [subnet, start, end, gateway, exclude::KEY]
};

/// A range, valid by the rules of host-local (`backend/allocator/range.go`,
/// `Canonicalize`). One without a gateway may have a subnet of one or two addresses, and gives
/// each of them.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
#[display("{addresses}")]
pub struct Range {
    subnet: IpNet,
    addresses: Interval,
    gateway: Option<IpAddr>,
    excluded: Vec<Interval>,
    given: Vec<Interval>,
}

impl Range {
    /// Reads an object with [`RANGE_KEYS`]; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: two spellings of a key; a subnet that is
    /// missing, unreadable, with host bits set or too small; a start, an end or a gateway
    /// that is unreadable; a start or an end outside of the subnet; a start after the end.
    pub fn read(path: &str, object: &Object) -> Result<Self, Error> {
        Self::read_excluding(path, object, &[])
    }

    /// [`Self::read`], without what its pool excludes, too.
    pub(crate) fn read_excluding(
        path: &str,
        object: &Object,
        exclude: &[Interval],
    ) -> Result<Self, Error> {
        let text = |key| object.read::<String>(path, key);
        let invalid = |key: &str, why: String| Error::config(format!("{path}.{key}: {why}"));
        let subnet: String = object.required(path, "subnet")?;
        let has_gateway = text("gateway")?.is_none_or(|gateway| gateway != NO_GATEWAY);
        let subnet = read_subnet(&subnet, has_gateway).map_err(|why| invalid("subnet", why))?;
        let v4 = subnet.addr().is_ipv4();
        let address = |key| -> Result<Option<IpAddr>, Error> {
            text(key)?
                .filter(|text| !text.is_empty())
                .map(|text| match text.parse() {
                    Ok(ip) => Ok(in_family(v4, ip)),
                    Err(_) => Err(invalid(key, format!("{text:?} is no IP address"))),
                })
                .transpose()
        };
        let start = address("rangeStart")?;
        let end = address("rangeEnd")?;
        for (key, ip) in [("rangeStart", start), ("rangeEnd", end)] {
            if let Some(ip) = ip.filter(|ip| !subnet.contains(ip)) {
                return Err(invalid(key, format!("{ip} is not in the subnet {subnet}")));
            }
        }
        let [first, last] = edges(subnet);
        let (start, end) = (start.unwrap_or(first), end.unwrap_or(last));
        let addresses = Interval::new(start, end)
            .ok_or_else(|| invalid("rangeStart", format!("{start} is after rangeEnd, {end}")))?;
        let gateway = match has_gateway {
            true => Some(address("gateway")?.unwrap_or(first)),
            false => None,
        };
        let own = exclude::read(path, object)?;
        let excluded = own
            .iter()
            .chain(exclude)
            .filter_map(|excluded| excluded.in_family(v4)?.intersection(addresses));
        let excluded = Interval::merged(excluded.collect());
        let mut holes = excluded.clone();
        holes.extend(gateway.and_then(|gateway| Interval::new(gateway, gateway)));
        let given = addresses.without(&Interval::merged(holes));
        Ok(Self {
            subnet,
            addresses,
            gateway,
            given,
            excluded,
        })
    }

    /// The subnet that the addresses are of.
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// The addresses, with those that are excluded, and with the gateway if it lies
    /// there.
    pub fn addresses(&self) -> Interval {
        self.addresses
    }

    /// The gateway, which is never given; `None` for a range without one.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }

    /// The addresses that are given on request only, in ascending order.
    pub fn excluded(&self) -> &[Interval] {
        &self.excluded
    }

    /// The addresses that are given without request, in ascending order: neither
    /// excluded nor a gateway of the call's pools.
    pub fn given(&self) -> &[Interval] {
        &self.given
    }

    /// True if the address is given without request.
    pub fn gives(&self, ip: IpAddr) -> bool {
        let at = self.given.partition_point(|part| part.last() < ip);
        self.given.get(at).is_some_and(|part| part.contains(ip))
    }

    /// Gives the address no more: it is another range's gateway.
    pub(crate) fn keep_free(&mut self, gateway: IpAddr) {
        let gateway = Interval::new(gateway, gateway);
        let parts = self.given.iter();
        self.given = parts
            .flat_map(|part| part.without(gateway.as_slice()))
            .collect();
    }
}

fn read_subnet(text: &str, has_gateway: bool) -> Result<IpNet, String> {
    let subnet =
        parse_subnet(text).ok_or_else(|| format!("{text:?} is no subnet (such as 10.1.0.0/16)"))?;
    if matches!(subnet.addr(), IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Err(format!(
            "{text:?} is an IPv4 subnet written as IPv6; write it as IPv4"
        ));
    }
    if has_gateway && is_link(subnet) {
        return Err(format!(
            "{text:?} is too small to give addresses from beside a gateway"
        ));
    }
    if subnet.addr() != subnet.network() {
        return Err(format!(
            "{text:?} has host bits set; its network is {}",
            subnet.trunc()
        ));
    }
    Ok(subnet)
}

/// True for a subnet of one or two addresses.
fn is_link(subnet: IpNet) -> bool {
    subnet.prefix_len() > subnet.max_prefix_len() - 2
}

/// The first and the last address that are given by default: neither the subnet's own nor IPv4's
/// broadcast address, which a subnet of one or two addresses doesn't have (RFC 3021, RFC 6164).
fn edges(subnet: IpNet) -> [IpAddr; 2] {
    let (first, last) = (subnet.network(), subnet.broadcast());
    match subnet {
        _ if is_link(subnet) => [first, last],
        IpNet::V4(_) => [successor(first), predecessor(last)],
        IpNet::V6(_) => [successor(first), last],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::object;

    fn range(text: &str) -> Result<Range, String> {
        Range::read("it", &object(text)).map_err(|error| error.msg)
    }

    #[test]
    fn the_defaults_are_those_of_host_local() {
        let v4 = range("10.1.0.0/16").unwrap();
        assert_eq!(v4.to_string(), "10.1.0.1-10.1.255.254");
        assert_eq!(v4.gateway().unwrap().to_string(), "10.1.0.1");
        assert_eq!(Interval::total(v4.given().iter()), 65533);
        let v6 = range("fd00:1::/112").unwrap();
        assert_eq!(v6.to_string(), "fd00:1::1-fd00:1::ffff");
        assert_eq!(v6.gateway().unwrap().to_string(), "fd00:1::1");
    }

    #[test]
    fn what_is_given_is_kept() {
        let read = range("10.0.0.0/24 10.0.0.0 10.0.0.255 192.168.0.1").unwrap();
        assert_eq!(read.to_string(), "10.0.0.0-10.0.0.255");
        assert_eq!(read.gateway().unwrap().to_string(), "192.168.0.1");
        assert_eq!(Interval::total(read.given().iter()), 256);
    }

    #[test]
    fn an_empty_text_is_none_as_in_host_local() {
        let json = r#"{"subnet":"10.0.0.0/24","rangeStart":"","rangeEnd":"","gateway":""}"#;
        let empty: Object = serde_json::from_str(json).unwrap();
        assert_eq!(
            Range::read("it", &empty).map_err(|e| e.msg),
            range("10.0.0.0/24")
        );
    }

    #[test]
    fn a_mapped_address_is_ipv4_in_ipv4_and_ipv6_in_ipv6() {
        let v4 = range("10.0.0.0/24 ::ffff:10.0.0.7 - - ::ffff:10.0.0.8").unwrap();
        assert_eq!(v4.to_string(), "10.0.0.7-10.0.0.254");
        assert_eq!(Interval::total(v4.given().iter()), 247);
        let v6 = range("::/64 ::ffff:10.0.0.7 ::ffff:10.0.0.9 - ::ffff:10.0.0.8").unwrap();
        assert_eq!(v6.to_string(), "::ffff:10.0.0.7-::ffff:10.0.0.9");
        assert_eq!(Interval::total(v6.given().iter()), 2);
    }

    #[test]
    fn without_a_gateway_none_is_kept_free_and_one_address_is_enough() {
        for (subnet, addresses, capacity) in [
            ("10.0.0.0/29", "10.0.0.1-10.0.0.6", 6),
            ("10.0.0.0/30", "10.0.0.1-10.0.0.2", 2),
            ("10.0.0.4/31", "10.0.0.4-10.0.0.5", 2),
            ("255.255.255.255/32", "255.255.255.255-255.255.255.255", 1),
            ("fd00::/126", "fd00::1-fd00::3", 3),
            ("fd00::2/127", "fd00::2-fd00::3", 2),
            ("fd00::7/128", "fd00::7-fd00::7", 1),
        ] {
            let read = range(&format!("{subnet} - - none")).unwrap();
            assert_eq!(
                (read.to_string().as_str(), read.gateway()),
                (addresses, None)
            );
            assert_eq!(Interval::total(read.given().iter()), capacity, "{subnet}");
        }
        let part = range("10.0.0.4/31 10.0.0.5 - none").unwrap();
        assert_eq!(part.to_string(), "10.0.0.5-10.0.0.5");
        let outside = range("10.0.0.4/31 - 10.0.0.6 none").unwrap_err();
        assert!(outside.contains("is not in the subnet"), "{outside}");
    }

    #[test]
    fn what_is_excluded_is_not_given() {
        let read =
            range("10.0.0.0/24 - - - 10.0.0.128/25 10.0.0.5 10.0.0.1-10.0.0.3 10.9.0.0/16 fd00::1")
                .unwrap();
        let texts = |list: &[Interval]| list.iter().map(Interval::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(read.excluded()),
            [
                "10.0.0.1-10.0.0.3",
                "10.0.0.5-10.0.0.5",
                "10.0.0.128-10.0.0.254"
            ]
        );
        assert_eq!(
            texts(read.given()),
            ["10.0.0.4-10.0.0.4", "10.0.0.6-10.0.0.127"]
        );
        assert_eq!(Interval::total(read.given().iter()), 123);
        assert_eq!(read.to_string(), "10.0.0.1-10.0.0.254");
        let none = range("10.0.0.0/24 - - - 10.0.0.0/8").unwrap();
        assert_eq!(Interval::total(none.given().iter()), 0);
    }

    #[test]
    fn a_key_counts_in_any_case_and_is_refused_in_two() {
        let read = |json: &str| Range::read("it", &serde_json::from_str(json).unwrap());
        let json = r#"{"SUBNET":"10.0.0.0/24","rangestart":"10.0.0.9","Exclude":["10.0.0.10"]}"#;
        let range = read(json).unwrap();
        assert_eq!(range.to_string(), "10.0.0.9-10.0.0.254");
        assert!(!range.gives("10.0.0.10".parse().unwrap()));
        for key in ["Subnet", "rangestart", "Gateway", "EXCLUDE"] {
            let twice = format!(
                r#"{{"subnet":"10.0.0.0/24","rangeStart":"","gateway":"","exclude":[],"{key}":null}}"#
            );
            let error = read(&twice).unwrap_err();
            assert!(error.msg.contains(&format!("{key:?}, too")), "{error}");
        }
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (text, message) in [
            ("-", "subnet is missing"),
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
                "subnet: \"10.0.0.0/31\" is too small to give addresses from beside a gateway",
            ),
            (
                "fd00::/127",
                "subnet: \"fd00::/127\" is too small to give addresses from beside a gateway",
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
            assert_eq!(range(text).unwrap_err(), format!("it.{message}"));
        }
    }
}
