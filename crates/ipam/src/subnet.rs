//! Reads a subnet, `<ip>/<prefix>`, and an address, `<ip>[/<prefix>]`.

use std::net::IpAddr;

use ipnet::IpNet;

/// Reads `<ip>/<prefix>`; `None` if it is none.
///
/// The address is read by the standard library, which refuses leading zeros, as Go
/// does: some programs take `010.0.0.0` for an octal number, hence for another
/// address. `ipnet`'s own parser accepts them.
pub fn parse_subnet(text: &str) -> Option<IpNet> {
    let (ip, length) = cni::parse_cidr(text)?;
    IpNet::new(ip, length).ok()
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

    #[test]
    fn subnets_of_both_families_are_read() {
        for text in [
            "10.1.0.0/16",
            "0.0.0.0/0",
            "10.0.0.5/32",
            "fd00::/64",
            "::/0",
        ] {
            let subnet = parse_subnet(text).unwrap();
            assert_eq!(subnet.to_string(), text);
        }
    }

    #[test]
    fn an_address_that_is_none_by_itself_is_none_with_a_prefix() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "/24",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/ 8",
            "10.0.0.0/8/8",
            "10.0.0/24",
            "010.0.0.0/24",
            "10.0.00.0/24",
            "::ffff:010.0.0.0/120",
            "fe80::1%eth0/64",
            "fd00::/129",
        ] {
            assert_eq!(parse_subnet(text), None, "{text:?}");
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
