//! `IPPool` and `OverlappingRangeIPReservation` objects of whereabouts.
//!
//! `spec.range` is an address with a prefix length. `spec.allocations` is an object whose keys are
//! decimal offsets from that address. A reservation's name is its address, after the
//! `network_name` if there is one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipam::IpNet;
use serde::Deserialize;
use serde_json::Value;

/// An address that whereabouts has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The address.
    pub ip: IpAddr,
    /// Namespace and name of the `IPPool`.
    pub ip_pool: String,
    /// The container's ID from the runtime.
    pub container_id: String,
    /// The interface in the container; `None` in allocations of releases before 0.8.
    pub ifname: Option<String>,
    /// Namespace and name of the pod, with a slash between them.
    pub pod: String,
}

#[derive(Deserialize)]
struct Spec {
    range: String,
    #[serde(default)]
    allocations: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    podref: String,
    ifname: Option<String>,
}

/// The allocations in an `IPPool`. An unreadable one is a message.
pub(super) fn allocations(ip_pool: &str, spec: &Value) -> Vec<Result<Allocation, String>> {
    let problem = |why: &dyn std::fmt::Display| format!("IPPool {ip_pool}: {why}");
    let spec: Spec = match serde_json::from_value(spec.clone()) {
        Ok(spec) => spec,
        Err(error) => return vec![Err(problem(&error))],
    };
    // Offsets count from this address, not from the first address of its subnet.
    let first = match spec.range.parse::<IpNet>() {
        Ok(range) => range.addr(),
        Err(_) => return vec![Err(problem(&format_args!("range {:?}", spec.range)))],
    };
    let read = |(offset, entry): (String, Value)| {
        let ip = offset.parse().ok().and_then(|offset| add(first, offset));
        let ip =
            ip.ok_or_else(|| problem(&format_args!("{offset:?} is no offset in its range")))?;
        let entry: Entry = serde_json::from_value(entry)
            .map_err(|error| problem(&format_args!("the allocation of {ip}: {error}")))?;
        Ok(Allocation {
            ip,
            ip_pool: ip_pool.to_owned(),
            container_id: entry.id,
            ifname: entry.ifname.filter(|ifname| !ifname.is_empty()),
            pod: entry.podref,
        })
    };
    spec.allocations.into_iter().map(read).collect()
}

/// The address at an offset.
fn add(first: IpAddr, offset: u64) -> Option<IpAddr> {
    Some(match first {
        IpAddr::V4(first) => {
            let offset = u32::try_from(offset).ok()?;
            Ipv4Addr::from_bits(first.to_bits().checked_add(offset)?).into()
        }
        IpAddr::V6(first) => {
            Ipv6Addr::from_bits(first.to_bits().checked_add(offset.into())?).into()
        }
    })
}

/// Messages about reservations whose address no `IPPool` has allocated to the same pod.
pub(super) fn without_allocation<'a>(
    allocations: impl Iterator<Item = &'a Allocation>,
    reservations: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Vec<String> {
    let mut by_pod: HashMap<&str, Vec<String>> = HashMap::new();
    for allocation in allocations {
        let names = by_pod.entry(&allocation.pod).or_default();
        names.push(reservation_name(allocation.ip));
    }
    let mut unmatched = Vec::new();
    for (name, spec) in reservations {
        let pod = spec["podref"].as_str().unwrap_or_default();
        let object = name.rsplit('/').next().unwrap_or_default();
        let is_of = |ip: &String| {
            let prefix = object.strip_suffix(ip.as_str());
            prefix.is_some_and(|network| network.is_empty() || network.ends_with('-'))
        };
        if !by_pod.get(pod).is_some_and(|names| names.iter().any(is_of)) {
            unmatched.push(format!(
                "OverlappingRangeIPReservation {name} of pod {pod}: no IPPool has its address for this pod"
            ));
        }
    }
    unmatched
}

/// The name of an address's reservation, without the network's name.
fn reservation_name(ip: IpAddr) -> String {
    let name = ip.to_string().replace(':', "-");
    match name.ends_with('-') {
        true => name + "0",
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ips(range: &str, offsets: &[&str]) -> Vec<Result<String, String>> {
        let entry = json!({"id": "c1", "podref": "shop/web", "ifname": "net1"});
        let entries = offsets
            .iter()
            .map(|offset| ((*offset).to_owned(), entry.clone()));
        let spec =
            json!({"range": range, "allocations": entries.collect::<serde_json::Map<_, _>>()});
        let all = allocations("kube-system/p", &spec).into_iter();
        all.map(|read| read.map(|allocation| allocation.ip.to_string()))
            .collect()
    }

    #[test]
    fn an_offset_counts_from_the_address_of_the_range() {
        for (range, offset, ip) in [
            ("10.40.0.0/16", "0", "10.40.0.0"),
            ("10.40.0.0/16", "257", "10.40.1.1"),
            ("10.40.0.225/28", "1", "10.40.0.226"),
            ("fd00::/64", "10", "fd00::a"),
            (
                "fd00::ffff/32",
                "9223372036854775807",
                "fd00::8000:0:0:fffe",
            ),
        ] {
            assert_eq!(
                ips(range, &[offset]),
                [Ok(ip.to_owned())],
                "{range} {offset}"
            );
        }
    }

    #[test]
    fn an_unreadable_allocation_is_named_in_a_message() {
        for (range, offset) in [
            ("10.40.0.0/16", "x"),
            ("10.40.0.0/16", "-1"),
            ("255.255.255.0/24", "256"),
            ("10.40.0.0/16", "4294967296"),
        ] {
            let expected = format!("IPPool kube-system/p: {offset:?} is no offset in its range");
            assert_eq!(ips(range, &[offset]), [Err(expected)]);
        }
        assert_eq!(
            ips("10.40/16", &["1"]),
            [Err("IPPool kube-system/p: range \"10.40/16\"".to_owned())]
        );
        let spec = json!({"range": "10.0.0.0/8", "allocations": {"7": {"id": "c1"}}});
        let error = allocations("p", &spec).remove(0).unwrap_err();
        assert!(
            error.starts_with("IPPool p: the allocation of 10.0.0.7: missing field `podref`"),
            "{error}"
        );
    }

    #[test]
    fn a_reservation_belongs_to_the_allocation_with_its_address_and_its_pod() {
        let allocation = |ip: &str| Allocation {
            ip: ip.parse().unwrap(),
            ip_pool: "p".into(),
            container_id: "c1".into(),
            ifname: None,
            pod: "shop/web".into(),
        };
        let all = [allocation("10.0.0.5"), allocation("fd00::")];
        let unmatched = |name: &str, pod: &str| {
            let (name, spec) = (format!("kube-system/{name}"), json!({"podref": pod}));
            !without_allocation(all.iter(), [(&name, &spec)].into_iter()).is_empty()
        };
        for name in ["10.0.0.5", "blue-10.0.0.5", "fd00--0", "blue-fd00--0"] {
            assert!(!unmatched(name, "shop/web"), "{name}");
            assert!(unmatched(name, "shop/db"), "{name}");
        }
        assert!(unmatched("110.0.0.5", "shop/web") && unmatched("10.0.0.6", "shop/web"));
    }
}
