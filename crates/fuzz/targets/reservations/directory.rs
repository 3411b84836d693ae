//! Model of a directory of reservations, which reads it by the format's definition.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The addresses that are given: 10.0.0.0/29 but for the gateway.
pub(crate) fn range() -> Vec<IpAddr> {
    (2..=6).map(|b| Ipv4Addr::new(10, 0, 0, b).into()).collect()
}

/// State of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// No file.
    Nothing,
    /// A file that is empty or cut off.
    Torn,
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
            // Zeroes are a length without its content, and a line break is followed by a line.
            _ if text.contains('\0') || text.ends_with('\r') || text.ends_with("\r\n") => {
                Self::Torn
            }
            [""] => Self::Torn,
            ["c1", "eth0"] if own => Self::Ours,
            ["c1", "eth0", "testnet"] => Self::Ours,
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
            Ok(_) => Says::by(&fs::read(path).unwrap(), self.own),
        }
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
