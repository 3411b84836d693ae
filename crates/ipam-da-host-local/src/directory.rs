//! One directory of reservations, in the format of host-local
//! (`backend/disk/backend.go`), locked while it is used.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cni::{Attachment, Error, NetworkName};
use ipam::{Holder, LAST_RESERVED_PREFIX, address_of_file};

use crate::claims::Claims;
use crate::lock::Lock;
use crate::occupancy::Occupancy;
use crate::whole_file::{self, Nameless, UNFINISHED};

/// A directory that this process alone uses, on behalf of a network.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    network: NetworkName,
    /// Whether the directory is of the network's own name.
    own: bool,
    claims: Claims,
    /// The other networks that have claims here, or had some.
    others: Vec<String>,
    _lock: Lock,
}

impl Directory {
    /// The directory of this name in `data_dir`; made if it isn't there.
    pub(crate) fn create(
        data_dir: &Path,
        name: &NetworkName,
        network: &NetworkName,
    ) -> Result<Self, Error> {
        let path = data_dir.join(name.as_str());
        // As host-local makes it.
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&path)
            .map_err(|e| Error::io(path.display(), e))?;
        Self::lock(path, name, network)
    }

    /// The directory of this name in `data_dir`, if it is there.
    pub(crate) fn existing(
        data_dir: &Path,
        name: &NetworkName,
        network: &NetworkName,
    ) -> Result<Option<Self>, Error> {
        let path = data_dir.join(name.as_str());
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path.display(), error)),
            Ok(_) => Self::lock(path, name, network).map(Some),
        }
    }

    fn lock(path: PathBuf, name: &NetworkName, network: &NetworkName) -> Result<Self, Error> {
        let lock = Lock::acquire(&path)
            .map_err(|e| Error::io(format_args!("lock of {}", path.display()), e))?;
        let claims = Claims::in_directory(&path);
        let mut others = claims.networks();
        others.retain(|other| other != network.as_str());
        Ok(Self {
            network: network.clone(),
            own: name == network,
            claims,
            others,
            path,
            _lock: lock,
        })
    }

    /// Reads all reservations.
    pub(crate) fn occupancy(&self) -> Result<Occupancy, Error> {
        let failed = |e| Error::io(self.path.display(), e);
        let mut occupancy = Occupancy::default();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Some(ip) = entry.file_name().to_str().and_then(address_of_file) {
                match fs::read(entry.path()) {
                    Ok(content) => occupancy.insert(ip, Some(Holder::parse(&content))),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        let path = entry.path();
                        tracing::warn!(path = %path.display(), %error, "unreadable reservation");
                        occupancy.insert(ip, None);
                    }
                }
            }
        }
        Ok(occupancy)
    }

    /// Reserves the address; `false` if it is reserved already. What a crashed
    /// program has left torn is replaced.
    pub(crate) fn reserve(&self, ip: IpAddr, attachment: &Attachment) -> Result<bool, Error> {
        let path = self.file(ip);
        let failed = |e| Error::io(path.display(), e);
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        let content = Holder::content(container_id.as_str(), ifname.as_str());
        let file = Nameless::write(&self.path, &content).map_err(failed)?;
        if !self.own {
            self.claims
                .make(self.network.as_str(), ip, &file)
                .map_err(failed)?;
        }
        let mut reserved = file.link(&path);
        if matches!(reserved, Ok(false)) && self.is_torn(ip) {
            tracing::warn!(
                path = %path.display(),
                "the reservation is empty or cut off: a crash has left it; giving the address out again"
            );
            reserved = fs::remove_file(&path).and_then(|()| file.link(&path));
        }
        if !self.own && !matches!(reserved, Ok(true)) {
            self.drop_claim(ip)?;
        }
        reserved.map_err(failed)
    }

    /// Whose the address is, by its file as it is now; `None` if nobody's.
    ///
    /// # Errors
    ///
    /// Code 5 if the file can't be read.
    pub(crate) fn holder(&self, ip: IpAddr) -> Result<Option<Holder>, Error> {
        let path = self.file(ip);
        match fs::read(&path) {
            Ok(content) => Ok(Some(Holder::parse(&content))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path.display(), error)),
        }
    }

    fn is_torn(&self, ip: IpAddr) -> bool {
        matches!(self.holder(ip), Ok(Some(Holder::Torn)))
    }

    /// Releases the address, if it is reserved.
    pub(crate) fn release(&self, ip: IpAddr) -> Result<(), Error> {
        let path = self.file(ip);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(path.display(), error))
            }
            _ => self.drop_claim(ip),
        }
    }

    /// Whether the network may release this reservation: in its own directory,
    /// what no other network claims; in another's, what it claims itself, or,
    /// if `unclaimed`, what nobody claims.
    pub(crate) fn is_ours(&self, ip: IpAddr, unclaimed: bool) -> bool {
        if self.own && self.others.is_empty() {
            return true;
        }
        let Ok(content) = fs::read(self.file(ip)) else {
            return self.own;
        };
        if !self.own && self.claims.holds(self.network.as_str(), ip, &content) {
            return true;
        }
        let claimed = |other: &String| self.claims.holds(other, ip, &content);
        (self.own || unclaimed) && !self.others.iter().any(claimed)
    }

    /// What the attachment holds here on the network.
    pub(crate) fn held_by(&self, attachment: &Attachment) -> Result<Vec<IpAddr>, Error> {
        let mut held = self.occupancy()?.of(attachment);
        held.retain(|ip| self.is_ours(*ip, true));
        Ok(held)
    }

    /// Takes away what killed processes have left of their work: claims
    /// without a reservation, an unfinished file.
    pub(crate) fn clear_remains(&self) -> Result<(), Error> {
        let ours = self.network.as_str();
        for ip in self.claims.of(ours) {
            let reservation = fs::read(self.file(ip));
            if !reservation.is_ok_and(|content| self.claims.holds(ours, ip, &content)) {
                self.drop_claim(ip)?;
            }
        }
        let unfinished = self.path.join(UNFINISHED);
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(unfinished.display(), error))
            }
            _ => Ok(()),
        }
    }

    /// The address that was given last from the pool of this index. A file that
    /// says something else only loses the rotation once.
    pub(crate) fn last_reserved(&self, pool: usize) -> Option<IpAddr> {
        let text = fs::read_to_string(self.path.join(last_reserved_file(pool))).ok()?;
        let last = text.trim().parse().ok();
        if last.is_none() {
            tracing::debug!(pool, text, "the address given last is unreadable");
        }
        last
    }

    /// Notes the address that is given last. That it can't be noted loses the
    /// rotation, and is no reason to refuse an address.
    pub(crate) fn set_last_reserved(&self, pool: usize, ip: IpAddr) {
        let name = last_reserved_file(pool);
        if let Err(error) = whole_file::replace(&self.path, &name, ip.to_string().as_bytes()) {
            let path = self.path.join(name);
            tracing::warn!(path = %path.display(), %error, "can't note the address given last");
        }
    }

    fn drop_claim(&self, ip: IpAddr) -> Result<(), Error> {
        if self.own {
            return Ok(());
        }
        self.claims
            .drop(self.network.as_str(), ip)
            .map_err(|e| Error::io(format_args!("claim on {}", self.file(ip).display()), e))
    }

    fn file(&self, ip: IpAddr) -> PathBuf {
        self.path.join(ip.to_string())
    }
}

/// The names of the directories in `data_dir` in which the network has claims.
pub(crate) fn claimed_by(data_dir: &Path, network: &NetworkName) -> Vec<NetworkName> {
    let Ok(entries) = fs::read_dir(data_dir) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str()?.parse().ok()?;
            Claims::in_directory(&entry.path())
                .has_any(network.as_str())
                .then_some(name)
        })
        .collect()
}

fn last_reserved_file(pool: usize) -> String {
    format!("{LAST_RESERVED_PREFIX}{pool}")
}
