//! Reservations before a measurement.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Result;

/// Addresses that are reserved before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// This number of consecutive addresses of a /16.
    Count(u32),
    /// 65,000 of a /16, with the free ones scattered.
    NearlyFull,
    /// All of a /16.
    Full,
    /// 60,000 of an IPv6 /64.
    SixtyThousandOf64,
}

impl Fill {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Count(count) => format!("{count} of 65,533"),
            Self::NearlyFull => "65,000 of 65,533, the free ones scattered".to_owned(),
            Self::Full => "all 65,533: ADD is refused".to_owned(),
            Self::SixtyThousandOf64 => "60,000 of an IPv6 /64".to_owned(),
        }
    }

    pub(crate) fn subnet(self) -> &'static str {
        match self {
            Self::SixtyThousandOf64 => "fd00:10::/64",
            _ => "10.10.0.0/16",
        }
    }

    /// Writes the reservations in host-local's format.
    pub(crate) fn write(self, network: &Path) -> Result<()> {
        fs::create_dir_all(network)?;
        for (i, ip) in self.addresses().iter().enumerate() {
            fs::write(network.join(ip), format!("{}\r\neth0", holder(i)))?;
        }
        Ok(())
    }

    /// The reserved addresses. A /16 has .0.2 to .255.254.
    fn addresses(self) -> Vec<String> {
        let v4 = |n: u32| Ipv4Addr::from(0x0a0a_0000 + n).to_string();
        let all = 2..=65_534;
        match self {
            Self::Count(count) => all.take(count as usize).map(v4).collect(),
            Self::Full => all.map(v4).collect(),
            // Every 123rd is free: 533 addresses.
            Self::NearlyFull => all.filter(|n| n % 123 != 0).map(v4).collect(),
            Self::SixtyThousandOf64 => (2..60_002u128)
                .map(|n| Ipv6Addr::from((0xfd00_0010_u128 << 96) + n).to_string())
                .collect(),
        }
    }
}

/// The container that holds the address with this number.
pub(crate) fn holder(i: usize) -> String {
    format!("{i:064x}")
}
