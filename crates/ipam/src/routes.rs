//! The kernel's tables of routes, as text: `/proc/net/route` and `/proc/net/ipv6_route`.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// A route: a destination, and the interface that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination. The default route has a prefix length of 0.
    pub to: IpNet,
    /// The name of the interface.
    pub interface: String,
}

impl Route {
    /// The routes of both tables, without those that every interface has: link-local,
    /// multicast and loopback ones of IPv6.
    pub fn of_tables(ipv4: &str, ipv6: &str) -> Vec<Self> {
        let v4 = ipv4.lines().skip(1).filter_map(Self::v4);
        v4.chain(ipv6.lines().filter_map(Self::v6)).collect()
    }

    /// A line of `/proc/net/route`: addresses are numbers in the machine's byte order, in
    /// hexadecimal.
    fn v4(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let interface = fields.next()?.to_owned();
        let address = |field: Option<&str>| {
            let bits = u32::from_str_radix(field?, 16).ok()?;
            Some(Ipv4Addr::from(bits.to_ne_bytes()))
        };
        let to = address(fields.next())?;
        let mask = address(fields.nth(5))?;
        let to = IpNet::with_netmask(to.into(), mask.into()).ok()?;
        Some(Self { to, interface })
    }

    /// A line of `/proc/net/ipv6_route`: 32 digits, and the length of the prefix in
    /// hexadecimal.
    fn v6(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let to = Ipv6Addr::from_bits(u128::from_str_radix(fields.next()?, 16).ok()?);
        if to.is_unicast_link_local() || to.is_multicast() || to.is_loopback() {
            return None;
        }
        let prefix_len = u8::from_str_radix(fields.next()?, 16).ok()?;
        Some(Self {
            to: IpNet::new(to.into(), prefix_len).ok()?,
            interface: fields.next_back()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn routes_are_read_as_the_kernel_writes_them() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0000110A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
            veth1\t0202110A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
        let zeroes = "0".repeat(32);
        let line = |to: &str, prefix: &str| {
            format!(
                "{to} {prefix} {zeroes} 00 {zeroes} 00000100 00000001 00000000 00000001   mynet0\n"
            )
        };
        let v6 = [
            line("fd000077000000000000000000000000", "40"),
            line("fe800000000000000000000000000000", "40"),
            line("ff000000000000000000000000000000", "08"),
            line(&zeroes, "00"),
        ];
        let routes = Route::of_tables(v4, &v6.concat());
        let texts: Vec<String> = routes
            .iter()
            .map(|route| format!("{} {}", route.to, route.interface))
            .collect();
        let expected = [
            "0.0.0.0/0 eth0",
            "10.17.0.0/16 eth0",
            "10.17.2.2/32 veth1",
            "fd00:77::/64 mynet0",
            "::/0 mynet0",
        ];
        assert_eq!(texts, expected);
    }
}
