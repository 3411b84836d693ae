//! Reads a subnet, `<ip>/<prefix>`.

use std::net::IpAddr;

use ipnet::IpNet;

/// Reads `<ip>/<prefix>`; `None` if it is none.
///
/// The address is read by the standard library, which refuses leading zeros, as Go
/// does: some programs take `010.0.0.0` for an octal number, hence for another
/// address. `ipnet`'s own parser accepts them.
pub fn parse_subnet(text: &str) -> Option<IpNet> {
    let (ip, prefix) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IpNet::new(ip, prefix.parse().ok()?).ok()
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
}
