//! One directory of reservations, in the format of host-local
//! (`backend/disk/backend.go`), locked while it is used.

mod claims;
mod index;
mod last_reserved;
mod lock;
mod occupancy;
mod reclaim;
mod stamp;
mod view;
mod whole_file;

use std::fs::{self, DirBuilder};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cni::{Attachment, Error, NetworkName};
use ipam::{Holder, Interval, RangeSet};

use crate::storage::Storage;
use claims::Claims;
use lock::Lock;
use occupancy::Occupancy;
use view::View;
use whole_file::{Nameless, UNFINISHED};

/// A directory that this process alone uses, on behalf of a network.
pub(crate) struct Directory {
    path: PathBuf,
    network: NetworkName,
    /// Whether the directory is of the network's own name.
    own: bool,
    claims: Claims,
    /// The other networks that have claims here, or had some.
    others: Vec<String>,
    cache_dir: PathBuf,
    /// What it holds, once that has been asked.
    view: Option<View>,
    _lock: Lock,
}

impl Directory {
    /// The directory of this name; made if it isn't there.
    pub(crate) fn create(storage: &Storage<'_>, name: &NetworkName) -> Result<Self, Error> {
        let path = storage.data_dir.join(name.as_str());
        if !path.is_dir() {
            // As host-local makes it.
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&path)
                .map_err(|e| Error::io(path.display(), e))?;
        }
        Self::lock(storage, name, path)
    }

    /// The directory of this name, if it is there.
    pub(crate) fn existing(
        storage: &Storage<'_>,
        name: &NetworkName,
    ) -> Result<Option<Self>, Error> {
        let path = storage.data_dir.join(name.as_str());
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path.display(), error)),
            Ok(_) => Self::lock(storage, name, path).map(Some),
        }
    }

    fn lock(storage: &Storage<'_>, name: &NetworkName, path: PathBuf) -> Result<Self, Error> {
        let lock = Lock::acquire(&path, storage.interrupt)
            .map_err(|e| Error::io(format_args!("lock of {}", path.display()), e))?;
        let network = storage.network.clone();
        let claims = Claims::in_directory(&path);
        let mut others = claims.networks();
        others.retain(|other| other != network.as_str());
        let mut it = Self {
            own: *name == network,
            network,
            claims,
            others,
            path,
            cache_dir: storage.cache_dir.clone(),
            view: None,
            _lock: lock,
        };
        if let Some(boot) = &storage.reclaim {
            it.reclaim(boot)?;
        }
        Ok(it)
    }

    /// The lowest address of the interval that nobody holds.
    pub(crate) fn first_free(&mut self, interval: Interval) -> Result<Option<IpAddr>, Error> {
        self.view()?.first_free(interval)
    }

    /// All reservations, as the files say.
    pub(crate) fn all(&mut self) -> Result<&Occupancy, Error> {
        self.view()?.files()
    }

    /// What the attachment holds here on the network: the addresses that are
    /// reserved to it, or, if there are none, those that an old host-local
    /// reserved to its container without an interface. The files of the `hints`
    /// are looked at in any case.
    pub(crate) fn held_by(
        &mut self,
        attachment: &Attachment,
        hints: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Holder)>, Error> {
        for holder in holders(attachment) {
            let mut held = self.held_exactly_by(&holder, hints)?;
            held.retain(|ip| self.is_ours(*ip, true));
            if !held.is_empty() {
                return Ok(held.into_iter().map(|ip| (ip, holder.clone())).collect());
            }
        }
        Ok(Vec::new())
    }

    /// An address of these ranges that the attachment or its container holds.
    pub(crate) fn held_of(
        &mut self,
        ranges: &RangeSet,
        attachment: &Attachment,
    ) -> Result<Option<IpAddr>, Error> {
        for holder in holders(attachment) {
            let held = self.held_exactly_by(&holder, &[])?;
            if let Some(ip) = held.into_iter().find(|ip| ranges.contains(*ip)) {
                return Ok(Some(ip));
            }
        }
        Ok(None)
    }

    fn held_exactly_by(&mut self, holder: &Holder, hints: &[IpAddr]) -> Result<Vec<IpAddr>, Error> {
        let mut candidates = self.view()?.candidates(holder)?;
        candidates.extend(hints);
        candidates.sort_unstable();
        candidates.dedup();
        let mut held = Vec::new();
        for ip in candidates {
            if self.holder(ip)?.as_ref() == Some(holder) {
                held.push(ip);
            }
        }
        Ok(held)
    }

    /// Whose the address is, by its file as it is now; `None` if nobody's.
    pub(crate) fn holder(&self, ip: IpAddr) -> Result<Option<Holder>, Error> {
        let path = self.file(ip);
        match cni::read_file(&path) {
            Ok(content) => Ok(Some(Holder::parse(&content))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path.display(), error)),
        }
    }

    /// Reserves the address; `false` if it is reserved already. What a crashed
    /// program has left torn is replaced.
    pub(crate) fn reserve(&mut self, ip: IpAddr, attachment: &Attachment) -> Result<bool, Error> {
        let reserved = self.changing(|it| it.make_reservation(ip, attachment))?;
        let [ours, _] = holders(attachment);
        let holder = if reserved {
            Some(ours)
        } else {
            // It may be somebody's who doesn't take the lock.
            self.holder(ip).unwrap_or_default()
        };
        self.view()?.reserved(ip, holder)?;
        Ok(reserved)
    }

    fn make_reservation(&self, ip: IpAddr, attachment: &Attachment) -> Result<bool, Error> {
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
        if matches!(reserved, Ok(false)) && matches!(self.holder(ip), Ok(Some(Holder::Torn))) {
            tracing::warn!(
                path = %path.display(),
                "the reservation is empty or cut off: a crash has left it; giving the address out again"
            );
            reserved = fs::remove_file(&path).and_then(|()| file.link(&path));
        }
        if !self.own && !matches!(reserved, Ok(true)) {
            self.drop_claim(self.network.as_str(), ip)?;
        }
        reserved.map_err(failed)
    }

    /// Releases an address that the holder has.
    pub(crate) fn release(&mut self, ip: IpAddr, holder: &Holder) -> Result<(), Error> {
        let ours = [self.network.to_string()];
        self.release_for(ip, holder, if self.own { &[] } else { &ours })
    }

    /// Releases an address that the holder has, and the claims of these networks.
    fn release_for(
        &mut self,
        ip: IpAddr,
        holder: &Holder,
        claimants: &[String],
    ) -> Result<(), Error> {
        self.changing(|it| {
            remove(&it.file(ip))?;
            claimants
                .iter()
                .try_for_each(|network| it.drop_claim(network, ip))
        })?;
        self.view()?.released(ip, holder)
    }

    /// Releases an address that has just been reserved to the attachment.
    pub(crate) fn give_back(&mut self, ip: IpAddr, attachment: &Attachment) -> Result<(), Error> {
        let [holder, _] = holders(attachment);
        self.release(ip, &holder)
    }

    /// Whether the network may release this reservation: in its own directory,
    /// what no other network claims; in another's, what it claims itself, or,
    /// if `unclaimed`, what nobody claims.
    pub(crate) fn is_ours(&self, ip: IpAddr, unclaimed: bool) -> bool {
        if self.own && self.others.is_empty() {
            return true;
        }
        let Ok(content) = cni::read_file(&self.file(ip)) else {
            return self.own;
        };
        if !self.own && self.claims.holds(self.network.as_str(), ip, &content) {
            return true;
        }
        let claimed = |other: &String| self.claims.holds(other, ip, &content);
        (self.own || unclaimed) && !self.others.iter().any(claimed)
    }

    /// Takes away what killed processes have left of their work: claims
    /// without a reservation, an unfinished file.
    pub(crate) fn clear_remains(&mut self) -> Result<(), Error> {
        self.changing(|it| {
            let ours = it.network.as_str();
            for ip in it.claims.of(ours) {
                let reservation = cni::read_file(&it.file(ip));
                if !reservation.is_ok_and(|content| it.claims.holds(ours, ip, &content)) {
                    it.drop_claim(ours, ip)?;
                }
            }
            remove(&it.path.join(UNFINISHED))
        })
    }

    /// The address that was given last from the pool of this index.
    pub(crate) fn last_reserved(&self, pool: usize) -> Option<IpAddr> {
        last_reserved::read(&self.path, pool)
    }

    /// Notes the address that is given last.
    pub(crate) fn set_last_reserved(&mut self, pool: usize, ip: IpAddr) {
        let path = self.path.clone();
        if !last_reserved::overwrite(&path, pool, ip) {
            self.changing(|_| last_reserved::replace(&path, pool, ip));
        }
    }

    /// Does something that changes the directory, so that it stays known whether
    /// somebody else has.
    fn changing<T>(&mut self, change: impl FnOnce(&Self) -> T) -> T {
        if let Some(view) = &mut self.view {
            view.before_change();
        }
        let done = change(self);
        if let Some(view) = &mut self.view {
            view.after_change();
        }
        done
    }

    fn view(&mut self) -> Result<&mut View, Error> {
        match self.view.take() {
            Some(view) => Ok(self.view.insert(view)),
            None => Ok(self.view.insert(View::open(&self.path, &self.cache_dir)?)),
        }
    }

    fn drop_claim(&self, network: &str, ip: IpAddr) -> Result<(), Error> {
        self.claims
            .drop(network, ip)
            .map_err(|e| Error::io(format_args!("claim on {}", self.file(ip).display()), e))
    }

    fn file(&self, ip: IpAddr) -> PathBuf {
        self.path.join(ip.to_string())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // While the lock is held.
        if let Some(view) = &mut self.view {
            view.save();
        }
    }
}

/// The names of the directories in which the network has claims.
pub(crate) fn claimed_by(storage: &Storage<'_>) -> Vec<NetworkName> {
    let Ok(entries) = fs::read_dir(&storage.data_dir) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str()?.parse().ok()?;
            Claims::in_directory(&entry.path())
                .has_any(storage.network.as_str())
                .then_some(name)
        })
        .collect()
}

/// Who may hold an address for the attachment: it, or, as an old host-local
/// wrote it, its container.
fn holders(attachment: &Attachment) -> [Holder; 2] {
    let container_id = attachment.container_id.to_string();
    [
        Holder::Attachment {
            container_id: container_id.clone(),
            ifname: attachment.ifname.to_string(),
        },
        Holder::Container(container_id),
    ]
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        // On a read-only disk, that comes first, whether it is there or not.
        Err(error) if fs::symlink_metadata(path).is_ok() => Err(Error::io(path.display(), error)),
        _ => Ok(()),
    }
}
