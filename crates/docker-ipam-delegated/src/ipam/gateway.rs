//! Refuses a gateway that a pool can't have.

use std::net::IpAddr;

use anyhow::{Result, ensure};

use crate::state::pool::{Pool, whole};

/// Refuses a gateway that is the network's own address or the broadcast address of the
/// subnet, as Docker's own IPAM driver does, and one that leaves no address in the
/// sub-pool.
///
/// # Errors
///
/// The reason, naming the address.
pub(crate) fn refuse_gateway(pool: &Pool, gateway: IpAddr) -> Result<()> {
    let subnet = pool.subnet;
    ensure!(
        gateway != subnet.network(),
        "Address: {gateway} is the network's own address of {subnet}; it can't be the gateway"
    );
    // IPv6 has no broadcast.
    ensure!(
        gateway.is_ipv6() || gateway != subnet.broadcast(),
        "Address: {gateway} is the broadcast address of {subnet}; it can't be the gateway"
    );
    if let Some(range) = pool.range {
        let left = whole(subnet)?.addresses().intersection(range.into());
        ensure!(
            left.is_none_or(|left| left.size() > 1 || !left.contains(gateway)),
            "Address: {gateway} is the only address of the SubPool {range}; as the gateway, it \
             leaves none for containers: --gateway or --ip-range must be another"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_a_hosts_address_and_leaves_one_for_a_container() {
        let refused = |range: Option<&str>, gateway: &str| {
            let subnet = if gateway.contains(':') {
                "fd00::/64"
            } else {
                "10.1.0.0/24"
            };
            let gateway = gateway.parse().unwrap();
            let range = range.map(|text| text.parse().unwrap());
            let pool = Pool {
                range,
                ..Pool::example(subnet)
            };
            let refused = refuse_gateway(&pool, gateway);
            refused
                .err()
                .map_or_else(String::new, |why| why.to_string())
        };
        for (range, gateway, why) in [
            (None, "10.1.0.0", "10.1.0.0 is the network's own address"),
            (None, "10.1.0.255", "10.1.0.255 is the broadcast address"),
            (None, "fd00::", "fd00:: is the network's own address"),
            (
                Some("10.1.0.7/32"),
                "10.1.0.7",
                "10.1.0.7 is the only address of the SubPool 10.1.0.7/32",
            ),
            // Its other address is the network's own.
            (
                Some("10.1.0.0/31"),
                "10.1.0.1",
                "10.1.0.1 is the only address of the SubPool 10.1.0.0/31",
            ),
        ] {
            let said = refused(range, gateway);
            assert!(said.contains(why), "{gateway}: {said}");
        }
        for (range, gateway) in [
            (None, "10.1.0.254"),
            (None, "fd00::ffff:ffff:ffff:ffff"),
            (Some("10.1.0.7/32"), "10.1.0.1"),
            (Some("10.1.0.2/31"), "10.1.0.2"),
        ] {
            assert_eq!(refused(range, gateway), "", "{gateway}");
        }
    }
}
