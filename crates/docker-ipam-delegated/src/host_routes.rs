//! Subnets that the host reaches already: its routes and its name servers. Docker takes
//! no pool of a driver's choice that overlaps one of them (`netutils`), and asks again,
//! for ever if it gets the same one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipam::IpNet;

/// A subnet that is in use on the host, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InUse {
    pub(crate) subnet: IpNet,
    pub(crate) by: String,
}

/// The subnets that the host uses now, without default routes.
pub(crate) fn in_use() -> Vec<InUse> {
    // A file that is missing says that the host has no such routes.
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut all = v4_routes(&read("/proc/net/route"));
    all.extend(v6_routes(&read("/proc/net/ipv6_route")));
    all.extend(name_servers(&read("/etc/resolv.conf")));
    all
}

/// `/proc/net/route`: addresses are numbers in the machine's byte order, in hexadecimal.
fn v4_routes(table: &str) -> Vec<InUse> {
    let address = |text: &str| {
        let bits = u32::from_str_radix(text, 16).ok()?;
        Some(Ipv4Addr::from(bits.to_ne_bytes()))
    };
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (device, to, mask) = (
            fields.first()?,
            address(fields.get(1)?)?,
            address(fields.get(7)?)?,
        );
        route_of(IpNet::with_netmask(to.into(), mask.into()).ok()?, device)
    };
    table.lines().skip(1).filter_map(route).collect()
}

/// `/proc/net/ipv6_route`: 32 digits, and the length of the prefix in hexadecimal.
fn v6_routes(table: &str) -> Vec<InUse> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let to = Ipv6Addr::from(u128::from_str_radix(fields.first()?, 16).ok()?);
        let prefix_len = u8::from_str_radix(fields.get(1)?, 16).ok()?;
        let device = fields.last()?;
        // Every interface has these.
        let is_of_any = to.is_multicast() || to.is_unicast_link_local() || to.is_loopback();
        if is_of_any {
            return None;
        }
        route_of(IpNet::new(to.into(), prefix_len).ok()?, device)
    };
    table.lines().filter_map(route).collect()
}

fn route_of(subnet: IpNet, device: &str) -> Option<InUse> {
    let by = format!("the route {subnet} of {device}");
    (subnet.prefix_len() > 0).then_some(InUse { subnet, by })
}

fn name_servers(resolv_conf: &str) -> Vec<InUse> {
    let server = |line: &str| {
        let ip: IpAddr = line.strip_prefix("nameserver")?.trim().parse().ok()?;
        let by = format!("the name server {ip}");
        (!ip.is_loopback()).then(|| InUse {
            subnet: ip.into(),
            by,
        })
    };
    resolv_conf.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnets(all: &[InUse]) -> Vec<String> {
        all.iter().map(|it| it.subnet.to_string()).collect()
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn routes_are_read_as_the_kernel_writes_them() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            mynet0\t00004D0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let routes = v4_routes(table);
        assert_eq!(subnets(&routes), ["10.77.0.0/16"]);
        assert_eq!(routes[0].by, "the route 10.77.0.0/16 of mynet0");
        let table = "fd000077000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001   mynet0\n\
            fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001   mynet0\n\
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
        assert_eq!(subnets(&v6_routes(table)), ["fd00:77::/64"]);
    }

    #[test]
    fn a_name_server_is_in_use() {
        let file = "search lan\nnameserver 10.9.0.53\nnameserver 127.0.0.53\nnameserver fd00::53\n";
        assert_eq!(
            subnets(&name_servers(file)),
            ["10.9.0.53/32", "fd00::53/128"]
        );
    }
}
