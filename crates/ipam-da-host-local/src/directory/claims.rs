//! Which network holds what in a directory that several networks share.
//!
//! A named pool's directory is used by every network that selects the pool, and
//! a reservation file has no place for the network's name. Yet GC is told the
//! valid attachments of one network, and must not take another's addresses. So
//! a reservation in a directory that isn't the network's own has a second name,
//! `by-network/<network>/<ip>`, which is given before the reservation's and
//! taken after it. It counts as long as it says the same as the reservation.
//!
//! host-local, which looks through all folders below, releases both alike.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipam::address_of_file;

use crate::directory::whole_file::Nameless;

const FOLDER: &str = "by-network";

/// The claims in one directory of reservations.
#[derive(Debug)]
pub(crate) struct Claims {
    folder: PathBuf,
}

impl Claims {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self {
            folder: directory.join(FOLDER),
        }
    }

    /// Whether the network has claims here, or had some.
    pub(crate) fn has_any(&self, network: &str) -> bool {
        self.folder.join(network).is_dir()
    }

    /// The networks that have claims here, or had some.
    pub(crate) fn networks(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }

    /// The addresses that the network claims.
    pub(crate) fn of(&self, network: &str) -> Vec<IpAddr> {
        let Ok(entries) = fs::read_dir(self.folder.join(network)) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| address_of_file(entry.ok()?.file_name().to_str()?))
            .collect()
    }

    /// Whether the network claims the address for the holder of the
    /// reservation with this content.
    pub(crate) fn holds(&self, network: &str, ip: IpAddr, reservation: &[u8]) -> bool {
        cni::read_file(&self.file(network, ip)).is_ok_and(|claim| claim == reservation)
    }

    /// Claims the address, before it is reserved. What is left of an earlier
    /// claim goes.
    pub(crate) fn make(&self, network: &str, ip: IpAddr, file: &Nameless) -> io::Result<()> {
        fs::create_dir_all(self.folder.join(network))?;
        let path = self.file(network, ip);
        if !file.link(&path)? {
            fs::remove_file(&path)?;
            file.link(&path)?;
        }
        Ok(())
    }

    /// Gives the claim up, after the reservation. None is no error.
    pub(crate) fn drop(&self, network: &str, ip: IpAddr) -> io::Result<()> {
        match fs::remove_file(self.file(network, ip)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        // The last one takes the folders along; they stay if it wasn't the last.
        let _ =
            fs::remove_dir(self.folder.join(network)).and_then(|()| fs::remove_dir(&self.folder));
        Ok(())
    }

    fn file(&self, network: &str, ip: IpAddr) -> PathBuf {
        self.folder.join(network).join(ip.to_string())
    }
}
