//! Pools, reservations and records of a node, read without their locks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::ListedRecord;
use cni::NetworkName;
use conflist::{Problem, readable};
use reservations::State;
use reservations::view::ListedAddress;

use crate::exit_status::Status;
use crate::node::Node;
use crate::node::docker::Docker;
use crate::node::held_address::{Holding, HoldingState};
use crate::node::network::{ALLOCATOR, HOST_LOCAL, Network, RANGES, RULES};
use crate::node::pools::{PlacedPool, Pools};
use crate::output::warn;
use crate::shared_pools::EtcdCluster;

/// Delegates that choose no pools that their configuration doesn't say.
const POOLS_ARE_CONFIGURED: [&str; 7] = [
    ALLOCATOR,
    HOST_LOCAL,
    RANGES,
    RULES,
    "ipam-ds-static",
    "static",
    "dhcp",
];

/// A directory of reservations.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// The networks of a pool in etcd, for which it stands: other nodes' addresses are taken
    /// and not listed. `None` for a directory of this node.
    pub(crate) shared_by: Option<Vec<NetworkName>>,
    /// The network or the named pool.
    pub(crate) name: NetworkName,
    /// The addresses that can't be given to another, lowest first.
    pub(crate) taken: Vec<IpAddr>,
    /// Its addresses, lowest first; empty unless [`Extent::All`] is read.
    pub(crate) listed: Vec<ListedAddress>,
}

/// A record, and its network.
#[derive(Debug)]
pub(crate) struct NetworkRecord {
    pub(crate) network: NetworkName,
    pub(crate) listed: ListedRecord,
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Reservations, and records only where nothing else says what the pools are.
    Pools,
    /// Records, and which addresses are taken.
    Map,
    /// Reservations and records.
    All,
}

/// What is kept on a node.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) pools: Pools,
    pub(crate) directories: Vec<Directory>,
    /// The place of each in [`Self::directories`].
    places: HashMap<PathBuf, usize>,
    pub(crate) records: Vec<NetworkRecord>,
    /// The attachments that were made for Docker; none unless [`Extent::All`] is read.
    pub(crate) docker: Docker,
    /// Files and folders that can't be read.
    pub(crate) problems: Vec<Problem>,
    /// Number of conflists, and files of Docker's memory, that can't be used.
    unread_conflists: usize,
}

impl Inventory {
    /// What the conflists say, without reservations and records.
    pub(crate) fn of_conflists(node: &Node) -> Self {
        let mut it = Self {
            unread_conflists: node.problems.len(),
            ..Self::default()
        };
        for network in &node.networks {
            it.pools.add_configured(network, &node.environment);
        }
        it
    }

    /// Reads it.
    pub(crate) fn read(node: &Node, extent: Extent) -> Self {
        let mut it = Self::of_conflists(node);
        for data_dir in node.data_dirs() {
            it.read_data_dir(&data_dir, extent);
        }
        for cluster in &node.clusters {
            it.read_cluster(cluster, extent);
        }
        let needs_records = |network: &Network| {
            let mut names = network.delegates.iter();
            // Pools may stand in files that only the selector reads.
            names.any(|name| !POOLS_ARE_CONFIGURED.contains(&name.as_str()))
                || network.ipam().get("poolsDir").is_some()
        };
        for state_dir in node.state_dirs() {
            let networks = match chain::record::networks(&state_dir) {
                Ok(networks) => networks,
                Err(error) => {
                    it.problem(&state_dir, &error);
                    continue;
                }
            };
            for name in networks {
                let is_wanted = extent != Extent::Pools
                    || node.network(name.as_str()).is_some_and(needs_records);
                if is_wanted {
                    it.read_records(&state_dir, &name);
                }
            }
        }
        let records = std::mem::take(&mut it.records);
        for record in &records {
            let network = node.network(record.network.as_str());
            if let (Some(network), Ok(content)) = (network, &record.listed.content)
                && needs_records(network)
            {
                let answers = content.delegates.iter();
                for answer in answers.filter_map(|it| it.result.as_deref()) {
                    it.pools.add_recorded(network, answer);
                }
            }
        }
        it.records = records;
        if extent == Extent::All {
            it.docker = node.ask_docker();
        }
        it
    }

    fn read_data_dir(&mut self, data_dir: &Path, extent: Extent) {
        let names = match reservations::view::directories(data_dir) {
            Ok(names) => names,
            Err(error) => return self.problem(data_dir, &error),
        };
        for name in names {
            let path = data_dir.join(name.as_str());
            // The networks of a directory that nobody configures are in its files.
            let is_counted = extent != Extent::All && self.is_configured(&path);
            let read = if is_counted {
                reservations::view::taken(&path).map(|taken| (taken, Vec::new()))
            } else {
                reservations::view::list(&path).map(|listed| (taken(&listed), listed))
            };
            match read {
                Ok((taken, listed)) => self.add_directory(Directory {
                    path,
                    shared_by: None,
                    name,
                    taken,
                    listed,
                }),
                // Removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => self.problem(&path, &error),
            }
        }
    }

    /// Reads the pools of a cluster; each stands for a directory of reservations.
    fn read_cluster(&mut self, cluster: &EtcdCluster, extent: Extent) {
        let its = |it: &&PlacedPool| cluster.networks.contains(&it.networks[0]);
        let used = self.pools.all.iter().filter(its);
        let used = used.map(|it| it.directory_name().clone()).collect();
        let lists = extent == Extent::All;
        let view = cluster.view(&mut cluster.engine(), used, lists);
        let view = match view {
            Ok(view) => view,
            Err(error) => {
                self.problems.push(Problem {
                    path: cluster.path(),
                    reason: error.to_string(),
                });
                return;
            }
        };
        self.problems.extend(view.problems);
        for pool in view.defined {
            self.pools.add_shared(cluster, pool);
        }
        let directories = view.pools.into_iter().map(|it| Directory {
            path: cluster.directory(it.name.as_str()),
            name: it.name,
            shared_by: Some(cluster.networks.clone()),
            taken: it.taken,
            listed: it.listed,
        });
        directories.for_each(|it| self.add_directory(it));
    }

    /// Adds a directory.
    pub(crate) fn add_directory(&mut self, directory: Directory) {
        let path = directory.path.clone();
        self.places.entry(path).or_insert(self.directories.len());
        self.directories.push(directory);
    }

    fn read_records(&mut self, state_dir: &Path, network: &NetworkName) {
        match chain::record::records(state_dir, network) {
            Ok(records) => self
                .records
                .extend(records.into_iter().map(|listed| NetworkRecord {
                    network: network.clone(),
                    listed,
                })),
            Err(error) => self.problem(&state_dir.join(network.as_str()), &error),
        }
    }

    fn problem(&mut self, path: &Path, error: &std::io::Error) {
        self.problems.push(Problem {
            path: path.to_owned(),
            reason: readable(error),
        });
    }

    /// Prints what can't be read, on stderr.
    pub(crate) fn warn(&self) {
        for Problem { path, reason } in &self.problems {
            warn(&format!("{}: {reason}", path.display()));
        }
        for (network, reason) in &self.pools.problems {
            warn(&format!("network {network}: {reason}"));
        }
    }

    /// True if everything could be read, conflists included.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread() == 0
    }

    fn unread(&self) -> usize {
        self.problems.len() + self.unread_conflists + self.pools.problems.len()
    }

    /// The status of a command that has shown what could be read.
    ///
    /// # Errors
    ///
    /// If something could not be read: what was shown isn't everything.
    pub(crate) fn verdict(&self, status: Status) -> anyhow::Result<Status> {
        anyhow::ensure!(
            self.is_whole(),
            "this is not everything: {} files or folders could not be read",
            self.unread()
        );
        Ok(status)
    }

    /// The reason why an attachment of this network may have a record that isn't among
    /// [`Self::records`]; `None` if all folders that may have it were read.
    pub(crate) fn may_have_a_record(&self, node: &Node, network: &str) -> Option<String> {
        let reason = |it: &Problem| {
            let path = it.path.display();
            format!("it may have a record: {path}: {}", it.reason)
        };
        let of_records = node.state_dirs();
        let mut problems = self.problems.iter();
        let unread = problems.find(|it| {
            let folders = of_records.iter();
            folders
                .flat_map(|folder| [folder.clone(), folder.join(network)])
                .any(|folder| folder == it.path)
        });
        // Its conflist, which may name another folder, may be one of those that can't be read.
        let unknown = node.problems.first();
        let conflist = unknown.filter(|_| node.network(network).is_none());
        unread.or(conflist).map(reason)
    }

    /// True if the directory exists, and its reservations could not be read.
    pub(crate) fn is_unreadable(&self, directory: &Path) -> bool {
        self.problems
            .iter()
            .any(|it| directory.starts_with(&it.path))
    }

    /// The directory at this path, if it exists.
    pub(crate) fn directory(&self, path: &Path) -> Option<&Directory> {
        Some(&self.directories[*self.places.get(path)?])
    }

    /// The taken addresses of a directory; none if it doesn't exist.
    pub(crate) fn taken(&self, directory: &Path) -> &[IpAddr] {
        self.directory(directory).map_or(&[], |it| &it.taken)
    }

    /// True if a pool is known to be kept in this directory.
    pub(crate) fn is_configured(&self, directory: &Path) -> bool {
        self.pools.has_directory(directory)
    }

    /// Who holds what: each reserved address, and each record whose addresses are not
    /// in a directory of reservations.
    pub(crate) fn holdings(&self) -> Vec<Holding<'_>> {
        let by_attachment: HashMap<(&str, &str, &str), usize> = self
            .records
            .iter()
            .enumerate()
            .map(|(at, it)| {
                let attachment = &it.listed.attachment;
                let id = attachment.container_id.as_str();
                ((it.network.as_str(), id, attachment.ifname.as_str()), at)
            })
            .collect();
        let mut is_placed = vec![false; self.records.len()];
        let mut pools: BTreeMap<&Path, Vec<&PlacedPool>> = BTreeMap::new();
        for pool in &self.pools.all {
            pools.entry(&pool.directory).or_default().push(pool);
        }
        let mut all = Vec::new();
        for directory in &self.directories {
            let pools = pools.get(directory.path.as_path()).map_or(&[][..], |it| it);
            for listed in &directory.listed {
                let mut pools = pools.iter().copied();
                let pool = pools.find(|it| it.pool.ranges.contains(listed.ip));
                let holder = match &listed.state {
                    State::Reserved(holder) => Some(holder),
                    _ => None,
                };
                let network = listed.network.as_deref();
                let at = holder.and_then(|it| {
                    let key = (network?, it.container_id.as_str(), it.ifname.as_deref()?);
                    by_attachment.get(&key).copied()
                });
                if let Some(at) = at {
                    is_placed[at] = true;
                }
                let record = at.map(|at| &self.records[at]);
                all.push(Holding::reserved(directory, listed, pool, record));
            }
        }
        let placed: HashSet<(&str, IpAddr)> = all
            .iter()
            .filter_map(|it| Some((it.network?, it.ip?)))
            .collect();
        for (record, is_placed) in self.records.iter().zip(is_placed) {
            if !is_placed {
                // An address that another holds by now isn't the record's any more.
                let network = record.network.as_str();
                let is_lost = |ip| placed.contains(&(network, ip));
                all.extend(Holding::recorded(record, is_lost));
            }
        }
        for it in &mut all {
            it.docker = it.container.and_then(|id| self.docker.holder(id, it.ip));
        }
        all
    }

    /// The holdings of this network or named pool, or all.
    pub(crate) fn holdings_of(&self, name: Option<&str>) -> Vec<Holding<'_>> {
        let mut all = self.holdings();
        if let Some(name) = name {
            all.retain(|it| it.is_of(name));
        }
        all
    }

    /// Number of holdings in each state of a record.
    pub(crate) fn states(&self) -> BTreeMap<(&str, HoldingState), usize> {
        let mut states = BTreeMap::new();
        for record in &self.records {
            let key = (
                record.network.as_str(),
                HoldingState::of_record(&record.listed),
            );
            *states.entry(key).or_default() += 1;
        }
        states
    }
}

/// The addresses that can't be given to another: only a torn file is free.
fn taken(listed: &[ListedAddress]) -> Vec<IpAddr> {
    let taken = listed.iter().filter(|it| it.state != State::Torn);
    taken.map(|it| it.ip).collect()
}
