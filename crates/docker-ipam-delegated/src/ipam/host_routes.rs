//! Subnets that the host reaches already: its routes and its name servers. If a driver chooses a
//! pool that overlaps one of them, Docker refuses the pool (`netutils`) and asks again, endlessly
//! if it gets the same one.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;

use anyhow::{Context, Result};
use ipam::{IpNet, Route};

/// A subnet that is in use on the host, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InUse {
    pub(crate) subnet: IpNet,
    pub(crate) by: String,
}

/// The subnets that the host uses now, without default routes.
///
/// # Errors
///
/// A file can't be read, so any subnet may be in use.
pub(crate) fn in_use() -> Result<Vec<InUse>> {
    let routes = Route::of_tables(&read("/proc/net/route")?, &read("/proc/net/ipv6_route")?);
    let mut all: Vec<InUse> = routes.into_iter().filter_map(route).collect();
    all.extend(name_servers(&read("/etc/resolv.conf")?));
    Ok(all)
}

/// The text of a file. A missing file is empty.
fn read(path: &str) -> Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| path.to_owned()),
    }
}

/// The subnet of a route; `None` for a default route.
fn route(Route { to, interface }: Route) -> Option<InUse> {
    let by = format!("the route {to} of {interface}");
    (to.prefix_len() > 0).then_some(InUse { subnet: to, by })
}

fn name_servers(resolv_conf: &str) -> Vec<InUse> {
    let server = |line: &str| {
        let ip: IpAddr = line.strip_prefix("nameserver")?.trim().parse().ok()?;
        let (subnet, by) = (ip.into(), format!("the name server {ip}"));
        (!ip.is_loopback()).then_some(InUse { subnet, by })
    };
    resolv_conf.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnets(all: &[InUse]) -> Vec<String> {
        all.iter().map(|used| used.subnet.to_string()).collect()
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
