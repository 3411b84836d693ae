//! Model of a directory of reservations, which reads it by the format's definition.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Younger than this, a torn file may be one that is being written.
const YOUNG: Duration = Duration::from_secs(10);

/// The addresses that are given, in order: 10.0.0.0/29 but for the gateway.
pub(crate) fn range() -> Vec<IpAddr> {
    (2..=6).map(|b| Ipv4Addr::new(10, 0, 0, b).into()).collect()
}

/// The gateway, which lies in the range and is never given.
pub(crate) fn gateway() -> IpAddr {
    Ipv4Addr::new(10, 0, 0, 1).into()
}

/// State of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// No file.
    Nothing,
    /// A file that is empty or cut off, and older than ten seconds.
    Torn,
    /// A younger one.
    BeingWritten,
    /// It is of `eth0` of `c1`.
    Ours,
    /// It is of `c1`, without an interface.
    OurContainers,
    /// It is somebody else's, or nobody can tell whose.
    Others,
}

impl Says {
    /// Meaning of a file with this content for `testnet`. `own` is true in the directory
    /// that is named after it.
    pub(crate) fn by(content: &[u8], own: bool) -> Self {
        let text = String::from_utf8_lossy(content);
        let lines: Vec<&str> = text.trim().splitn(3, "\r\n").collect();
        match lines.as_slice() {
            _ if text.contains('\0') => Self::Torn,
            [""] => Self::Torn,
            ["c1", "eth0"] if own => Self::Ours,
            ["c1", "eth0", "testnet"] => Self::Ours,
            // The interface's line was begun, and never written.
            [_] if text.contains('\r') => Self::Torn,
            ["c1"] if own => Self::OurContainers,
            _ => Self::Others,
        }
    }
}

/// A directory as it is now.
pub(crate) struct Directory {
    path: PathBuf,
    /// True if it is named after the network.
    own: bool,
}

impl Directory {
    /// The one at this path.
    pub(crate) fn at(path: &Path, own: bool) -> Self {
        Self {
            path: path.to_owned(),
            own,
        }
    }

    /// The state of an address.
    pub(crate) fn says(&self, ip: IpAddr) -> Says {
        let path = self.path.join(ip.to_string());
        match fs::symlink_metadata(&path) {
            Err(_) => Says::Nothing,
            // A pipe, which nobody must read, included.
            Ok(it) if !it.is_file() => Says::Others,
            Ok(it) => match Says::by(&fs::read(path).unwrap(), self.own) {
                Says::Torn if it.modified().unwrap().elapsed().unwrap() < YOUNG => {
                    Says::BeingWritten
                }
                says => says,
            },
        }
    }

    /// The address that was given last, if that can be read.
    pub(crate) fn last(&self) -> Option<IpAddr> {
        let path = self.path.join("last_reserved_ip.0");
        let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        let text = is_file.then(|| fs::read(path).unwrap())?;
        std::str::from_utf8(&text).ok()?.trim().parse().ok()
    }

    /// The addresses whose files say that they are of `eth0` of `c1`.
    pub(crate) fn held_by_us(&self) -> Vec<IpAddr> {
        let entries = fs::read_dir(&self.path).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| {
                let ip: IpAddr = name.to_str()?.parse().ok()?;
                (ip.to_string().as_str() == name).then_some(ip)
            })
            .filter(|ip| self.says(*ip) == Says::Ours)
            .collect()
    }
}
