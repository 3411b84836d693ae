//! Reservations before a measurement.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;

use crate::table::grouped;

/// Addresses of a /16 that are reserved before a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// This number of consecutive addresses.
    Count(u32),
    /// All but 200, which are scattered.
    NearlyFull,
    All,
}

impl Fill {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Count(0) => "empty".to_owned(),
            Self::Count(count) => format!("{} reserved", grouped(count as usize)),
            Self::NearlyFull => "200 free, scattered".to_owned(),
            Self::All => "none free".to_owned(),
        }
    }

    /// Writes the reservations in host-local's format.
    pub(crate) fn write(self, network: &Path) -> Result<()> {
        fs::create_dir_all(network)?;
        let all = 2..=65_534u32;
        let addresses: Vec<u32> = match self {
            Self::Count(count) => all.take(count as usize).collect(),
            Self::NearlyFull => all.filter(|n| n % 327 != 0).collect(),
            Self::All => all.collect(),
        };
        for n in addresses {
            let ip = Ipv4Addr::from(0x0a0a_0000 + n).to_string();
            fs::write(network.join(ip), format!("{n:064x}\r\neth0"))?;
        }
        Ok(())
    }
}
