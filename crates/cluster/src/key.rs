use std::fmt;
use std::net::IpAddr;

use cni::NetworkName;
use ipam::Pool;

/// Name of an address: the address, in its space. Nothing else names a reservation, so two pools
/// with the same address share its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey {
    /// The address space, if there are several with the same addresses: the key `space` of a pool.
    pub space: Option<NetworkName>,
    /// The address; an IPv4 address is never written as IPv6.
    pub ip: IpAddr,
}

impl AddressKey {
    /// The name of one of a pool's addresses.
    pub fn of(pool: &Pool, ip: IpAddr) -> Self {
        Self {
            space: pool.space.clone(),
            ip: pool.ranges.in_family(ip),
        }
    }
}

impl fmt::Display for AddressKey {
    /// `10.0.0.5`, or `SPACE/10.0.0.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(space) = &self.space {
            write!(f, "{space}/")?;
        }
        self.ip.fmt(f)
    }
}
