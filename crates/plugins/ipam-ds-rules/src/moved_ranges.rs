//! Finds addresses of a pool in other directories of reservations, after a change of the catalogue
//! has moved ranges between pools.
//!
//! Each pool has its own directory, so the allocator doesn't see the reservation of an address
//! that was moved from another pool. When a catalogue is compiled, all directories are searched,
//! and each pool gets the names of those that hold an address of it. These names are cached with
//! the catalogue. So an ADD reads another directory only if a chosen pool has such names, and
//! excludes the addresses that are reserved there. A range can only move when the catalogue
//! changes, so the names stay complete. Only the network's own directory, in which another selector
//! may reserve an address later, is always read.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::{Error, NetworkName, Object, code};
use ipam::{Disjoint, Pool, RangeSet};
use reservations::view::{self, ListedAddress};

use crate::catalogue::Catalogue;
use crate::choice::Choice;
use crate::pool::{CataloguePool, exclude};

/// Default of `ipam.dataDir`, as in the allocator.
const DATA_DIR: &str = "/var/lib/cni/networks";

/// An address of a pool that is reserved in another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldElsewhere {
    /// Index of the pool.
    pub pool: usize,
    /// The name of the directory.
    pub directory: NetworkName,
    /// The address and its holder.
    pub address: ListedAddress,
}

/// The addresses of these pools that are reserved in other directories below `data_dir`. Each pool
/// has the name of its own directory; `concerns` filters the reservations.
///
/// # Errors
///
/// Code 5 for a folder that can't be read.
pub fn held_elsewhere(
    data_dir: &Path,
    pools: &[(&str, &RangeSet)],
    concerns: impl Fn(&NetworkName, &ListedAddress) -> bool,
) -> Result<Vec<HeldElsewhere>, Error> {
    let mut disjoint = Disjoint::default();
    for (i, (_, ranges)) in pools.iter().enumerate() {
        // The pools of one catalogue don't overlap.
        let _ = disjoint.add(ranges, i);
    }
    let failed = |path: &Path, e: io::Error| Error::io(path.display(), e);
    let mut found = Vec::new();
    for directory in view::directories(data_dir).map_err(|e| failed(data_dir, e))? {
        let path = data_dir.join(directory.as_str());
        let ips = match view::with_a_file(&path) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(|e| failed(&path, e))?,
        };
        for ip in ips {
            let Some(pool) = disjoint.owner(ip) else {
                continue;
            };
            let own = pools[pool].0;
            if own == directory.as_str() || is_one_directory(&path, &data_dir.join(own)) {
                continue;
            }
            let address = view::address(&path, ip).map_err(|e| failed(&path, e))?;
            if let Some(address) = address.filter(|address| concerns(&directory, address)) {
                found.push(HeldElsewhere {
                    pool,
                    directory: directory.clone(),
                    address,
                });
            }
        }
    }
    Ok(found)
}

/// True if one of these paths is a symbolic link to the other.
fn is_one_directory(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// Folder and network of the allocator's reservations.
pub(crate) struct Reservations<'a> {
    pub(crate) data_dir: PathBuf,
    pub(crate) network: &'a NetworkName,
}

impl<'a> Reservations<'a> {
    pub(crate) fn of(ipam: &Object, network: &'a NetworkName) -> Result<Self, Error> {
        let data_dir = ipam.absolute_path("ipam", "dataDir")?;
        Ok(Self {
            data_dir: data_dir.unwrap_or_else(|| PathBuf::from(DATA_DIR)),
            network,
        })
    }

    /// Notes for each pool of a catalogue the directories that hold an address of it. In
    /// directories of the catalogue's pools, all reservations count; in others, only those of this
    /// network or of an unknown holder.
    ///
    /// The network's own directory is always noted, unless a pool has its name: another selector
    /// may reserve addresses there without a change of the catalogue.
    ///
    /// # Errors
    ///
    /// As [`held_elsewhere`].
    pub(crate) fn note(&self, catalogue: &mut Catalogue) -> Result<(), Error> {
        let names: BTreeSet<String> = catalogue
            .pools
            .iter()
            .map(|pool| pool.name.to_string())
            .collect();
        let concerns = |directory: &NetworkName, address: &ListedAddress| {
            names.contains(directory.as_str())
                || address
                    .network
                    .as_deref()
                    .is_none_or(|network| network == self.network.as_str())
        };
        let pools = catalogue.pools.iter_mut();
        let mut ranged: Vec<&mut CataloguePool> =
            pools.filter(|pool| pool.ranges.is_some()).collect();
        let pools: Vec<(&str, &RangeSet)> = ranged
            .iter()
            .filter_map(|pool| Some((pool.name.as_str(), pool.ranges.as_ref()?)))
            .collect();
        for held in held_elsewhere(&self.data_dir, &pools, concerns)? {
            let held_in = &mut ranged[held.pool].chosen.held_in;
            held_in.insert(held.directory.to_string());
        }
        let own = self.network.as_str();
        if !names.contains(own) {
            let real = |name: &str| fs::canonicalize(self.data_dir.join(name)).ok();
            let real_own = real(own);
            // A link may lead from one name to the other.
            ranged.retain(|pool| real_own.is_none() || real(pool.name.as_str()) != real_own);
            for pool in ranged {
                pool.chosen.held_in.insert(own.to_owned());
            }
        }
        Ok(())
    }

    /// Excludes the addresses of the chosen pools that other directories hold now.
    ///
    /// # Errors
    ///
    /// Code 111 for a requested address that another directory holds; code 5 for a
    /// directory that can't be read.
    pub(crate) fn exclude_held(&self, choice: &mut Choice) -> Result<(), Error> {
        let mut listed: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
        for directory in choice.held_in.iter().flatten() {
            if let Entry::Vacant(place) = listed.entry(directory) {
                let path = self.data_dir.join(directory);
                place.insert(match view::with_a_file(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                    other => other.map_err(|e| Error::io(path.display(), e))?,
                });
            }
        }
        listed.retain(|_, ips| !ips.is_empty());
        for (pool, directories) in choice.pools.iter_mut().zip(&choice.held_in) {
            let found = directories
                .iter()
                .filter_map(|directory| listed.get_key_value(&**directory));
            let mut found = found.peekable();
            if found.peek().is_none() {
                continue;
            }
            let ranges = Pool::read("pools", pool.clone())?.ranges;
            let requested: Option<IpAddr> = pool.read("pools", "requested-ip")?;
            let mut held = BTreeSet::new();
            for (directory, ips) in found {
                if let Some(ip) = requested.filter(|ip| ips.contains(ip)) {
                    let path = self.data_dir.join(directory);
                    let msg = format!("{ip}, requested, is reserved in {}", path.display());
                    return Err(Error::new(code::REQUESTED_TAKEN, msg));
                }
                held.extend(ips.iter().filter(|ip| ranges.contains(**ip)));
            }
            exclude("pools", pool, &held)?;
        }
        Ok(())
    }
}
