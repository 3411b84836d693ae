//! One table of who holds which address, read once. Each command is a view of it.
//!
//! Its rows ([`Row`]) are the reservations of this node and the addresses of its cluster (`cluster_rows`).
//! Records are joined to them by network, container and interface; a record without a reservation is a row
//! by itself, and `leftovers` finds reservations that their record doesn't name. The rows of one attachment
//! together are a [`NetworkAttachment`], which [`select`] finds by what a person writes. What can't be read
//! is a problem, never a missing row.

mod attachment;
mod cluster_address;
mod cluster_rows;
mod container_names;
mod leftovers;
mod row;
mod selection;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use chain::record::{ListedRecord, networks, records};
use conflist::{Problem, readable};
use reservations::view::{directories, list};

use crate::clusters::Cluster;
use crate::local_node::LocalNode;
use crate::network::Network;
use crate::output::warn;
use crate::pools::KnownPools;
use leftovers::Leftovers;

pub(crate) use attachment::{NetworkAttachment, attachments};
pub(crate) use cluster_address::ClusterAddress;
pub(crate) use container_names::{ContainerNames, short_id};
pub(crate) use row::{Row, RowState};
pub(crate) use selection::select;

/// Whose addresses of a cluster are read. With a kubeconfig, there is no node: those of all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeScope {
    /// This node's, with what their release needs.
    ThisNode,
    /// This node's, and those of owners, which have no node.
    ThisNodeAndOwners,
    /// Those of all nodes, to be shown.
    AllNodes,
    /// Only the names of those of all nodes: a pool's counts need no more, and these are no rows.
    CountsOnly,
}

/// Who holds which address, and the pools that the addresses are of.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) pools: KnownPools,
    /// The rows: each address that isn't free, and each record without one.
    pub(crate) rows: Vec<Row>,
    /// The records of chains.
    pub(crate) records: Vec<Arc<ListedRecord>>,
    /// The records of endpoints of Docker's network driver, which `docker-ipam-delegated` keeps. Their
    /// plugins may run a chain, which has a record of the same attachment.
    pub(crate) endpoints: Vec<Arc<ListedRecord>>,
    /// Files, folders and clusters that can't be read.
    pub(crate) problems: Vec<Problem>,
    /// Number of things that can't be read, conflists included.
    pub(crate) unread: usize,
    /// The addresses that aren't free, ascending, by directory.
    taken: BTreeMap<PathBuf, Vec<IpAddr>>,
}

impl Inventory {
    /// Reads the reservations, the records and the cluster's addresses, and names on stderr what
    /// can't be read. With a kubeconfig, only its cluster is read, of all nodes.
    pub(crate) fn read(node: &LocalNode, scope: NodeScope) -> Self {
        let mut inventory = Self::default();
        let clusters = match &node.sources.kubeconfig {
            Some(file) => vec![Cluster::from_kubeconfig(file)],
            None => inventory.read_node(node),
        };
        for cluster in &clusters {
            if let Err(error) = inventory.add_cluster(cluster, scope) {
                let problem = Problem::new(cluster.place(None), format!("{error:#}"));
                inventory.problems.push(problem);
            }
        }
        inventory.join(node);
        inventory.problems.iter().for_each(warn);
        for (network, reason) in &inventory.pools.problems {
            warn(format!("network {network}: {reason}"));
        }
        let unread_pools = inventory.pools.problems.len();
        inventory.unread = inventory.problems.len() + unread_pools + node.problems.len();
        inventory
    }

    /// Reads the files of this node; returns the clusters that they lead to.
    fn read_node(&mut self, node: &LocalNode) -> Vec<Arc<Cluster>> {
        self.read_records(node);
        let unconfigured = node.networks_without_conflist(&self.records, &mut self.problems);
        for network in &node.networks {
            self.pools.add_configured(network, &node.environment);
        }
        for network in &unconfigured {
            let all = self.records.iter();
            let recorded = all.filter(|one| one.network == network.name);
            // Docker's has the subnets of its records, or the pools of another network's conflist.
            let dockers = recorded.filter(|one| self.pools.add_docker_subnet(network, one));
            if dockers.count() == 0 {
                self.pools.add_configured(network, &node.environment);
            }
        }
        let networks = || node.networks.iter().chain(&unconfigured);
        self.read_data_dirs(node, networks(), BTreeSet::new());
        Cluster::of_networks(networks(), node, &mut self.problems)
    }

    /// Reads the reservations and the records of this node, also in the folders that only records
    /// name.
    pub(crate) fn from_files(node: &LocalNode) -> Self {
        let mut inventory = Self::from_records(node);
        let recorded = node.recorded_data_dirs(&inventory.records);
        inventory.read_data_dirs(node, &node.networks, recorded);
        inventory.join(node);
        inventory
    }

    /// Reads only the records.
    pub(crate) fn from_records(node: &LocalNode) -> Self {
        let mut inventory = Self::default();
        inventory.read_records(node);
        inventory
    }

    fn read_records(&mut self, node: &LocalNode) {
        for state_dir in node.state_dirs() {
            for network in self.values_or_problem(&state_dir, networks(&state_dir)) {
                let folder = state_dir.join(network.as_str());
                let read = self.values_or_problem(&folder, records(&state_dir, &network));
                let is_endpoint = |record: &Arc<ListedRecord>| match record.usable() {
                    Some(content) => content.is_undone_by_caller,
                    None => state_dir == node.endpoints_dir(),
                };
                let (endpoints, chains): (Vec<_>, Vec<_>) =
                    read.into_iter().map(Arc::new).partition(is_endpoint);
                self.endpoints.extend(endpoints);
                self.records.extend(chains);
            }
        }
    }

    /// Reads the reservations in the folders of these networks, in the default one and in some more.
    fn read_data_dirs<'n>(
        &mut self,
        node: &LocalNode,
        networks: impl IntoIterator<Item = &'n Network>,
        mut data_dirs: BTreeSet<PathBuf>,
    ) {
        let with_files = networks.into_iter().filter(|network| network.keeps_files());
        data_dirs.extend(with_files.map(|network| network.data_dir.clone()));
        data_dirs.insert(node.sources.data_dir.clone());
        for data_dir in &data_dirs {
            for name in self.values_or_problem(data_dir, directories(data_dir)) {
                let place: Arc<Path> = data_dir.join(name.as_str()).into();
                let read = match list(&place) {
                    // Removed meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    read => self.values_or_problem(&place, read),
                };
                let rows = read.into_iter();
                let rows = rows.map(|address| Row::reserved(&place, address));
                self.rows.extend(rows);
            }
        }
    }

    /// The values that were read at this path; empty, with a problem, if it can't be read.
    fn values_or_problem<T>(&mut self, path: &Path, read: io::Result<Vec<T>>) -> Vec<T> {
        read.unwrap_or_else(|error| {
            self.problems.push(Problem::new(path, readable(&error)));
            Vec::new()
        })
    }

    /// Completes the rows by records and pools, and adds those of records without a reservation.
    fn join(&mut self, node: &LocalNode) {
        let by_attachment = by_attachment(&self.records);
        let leftovers = Leftovers::new(node, &self.problems);
        let mut pools: HashMap<&Path, Vec<_>> = HashMap::new();
        for pool in &self.pools.all {
            pools.entry(&pool.directory).or_default().push(pool);
        }
        let mut reserved: HashSet<(String, IpAddr)> = HashSet::new();
        let mut with_reservation: HashSet<&Path> = HashSet::new();
        for row in &mut self.rows {
            let (Some(ip), Some(place)) = (row.ip, row.place.clone()) else {
                continue;
            };
            let mut pools_here = pools.get(&*place).into_iter().flatten();
            if let Some(pool) = pools_here.find(|placed| placed.pool.ranges.contains(ip)) {
                row.pool = pool.name().map(str::to_owned);
            }
            if row.state.is_taken() {
                self.taken.entry(place.to_path_buf()).or_default().push(ip);
            }
            // A record has its owner's address.
            let network = row.network.clone().filter(|_| row.owner.is_none());
            reserved.extend(network.map(|network| (network, ip)));
            // Another node's attachment isn't this node's, whatever its name.
            let own = row.attachment_key().filter(|_| !row.is_held_elsewhere);
            match own
                .and_then(|key| by_attachment.get(&key))
                .map(Vec::as_slice)
            {
                Some([only]) if leftovers.is_leftover(ip, only) => row.state = RowState::Leftover,
                Some([.., record]) => {
                    with_reservation.insert(&record.file);
                    row.set_record(record);
                }
                _ => {}
            }
        }
        for record in &self.records {
            if !with_reservation.contains(&*record.file) {
                // An address that another attachment holds now isn't the record's any more.
                let network = record.network.as_str();
                let is_lost = |ip| reserved.contains(&(network.to_owned(), ip));
                self.rows.extend(Row::recorded(record, is_lost));
            }
        }
        self.join_endpoints();
        for taken in self.taken.values_mut() {
            taken.sort_unstable();
        }
    }

    /// Adds to the rows of an attachment that it is an endpoint of Docker's. One without rows gets
    /// those of its own record, unless Docker's address driver has them.
    fn join_endpoints(&mut self) {
        let by_attachment = by_attachment(&self.endpoints);
        let mut with_rows: HashSet<&Path> = HashSet::new();
        let mut docker_ips: HashSet<IpAddr> = HashSet::new();
        for row in &mut self.rows {
            let content = row.record.as_ref().and_then(|record| record.usable());
            if content.is_some_and(|content| !content.caller_lines.is_empty()) {
                docker_ips.extend(row.ip);
            }
            let endpoints = row.attachment_key().and_then(|key| by_attachment.get(&key));
            if let Some(record) = endpoints.and_then(|all| all.last()) {
                with_rows.insert(&record.file);
                row.endpoint = Some(Arc::clone(record));
            }
        }
        for record in &self.endpoints {
            if !with_rows.contains(&*record.file) {
                let rows = Row::recorded(record, |_| false).into_iter();
                let rows = rows.filter(|row| row.ip.is_none_or(|ip| !docker_ips.contains(&ip)));
                self.rows.extend(rows.map(|row| Row {
                    endpoint: Some(Arc::clone(record)),
                    ..row
                }));
            }
        }
    }

    /// Refuses a name of no network and no pool.
    ///
    /// # Errors
    ///
    /// Nothing has this name.
    pub(crate) fn refuse_unknown_name(&self, node: &LocalNode, name: &str) -> Result<()> {
        let is_known = node.network(name).is_some()
            || self.pools.all.iter().any(|pool| pool.matches_name(name))
            || self.rows.iter().any(|row| row.matches_name(name));
        ensure!(
            is_known,
            self.unless_unread(format!("no network or pool {name}: see ipamctl pools"))
        );
        Ok(())
    }

    /// The text of an error that says that something isn't there: it may be in what couldn't be read.
    pub(crate) fn unless_unread(&self, missing: impl Display) -> String {
        match self.verdict(false) {
            Ok(_) => missing.to_string(),
            Err(incomplete) => format!("{incomplete}; of the rest: {missing}"),
        }
    }

    /// The result of a command that has shown what could be read: whether it has findings.
    ///
    /// # Errors
    ///
    /// If something could not be read: the output is incomplete.
    pub(crate) fn verdict(&self, has_findings: bool) -> Result<bool> {
        ensure!(
            self.unread == 0,
            "this is not everything: {} could not be read, named above",
            self.unread
        );
        Ok(has_findings)
    }

    /// The reason why an attachment of this network may have a record that isn't among
    /// [`Self::records`]; `None` if all folders that may have it were read.
    pub(crate) fn unread_record_reason(&self, node: &LocalNode, network: &str) -> Option<String> {
        let mut problems = self.problems.iter();
        let unread = problems.find(|problem| {
            let mut state_dirs = node.state_dirs().into_iter();
            state_dirs.any(|dir| [dir.join(network), dir].contains(&problem.path))
        });
        // One of the unreadable files may be its conflist, which may name another folder.
        let unreadable = node.problems.first();
        let conflist = unreadable.filter(|_| node.network(network).is_none());
        let problem = unread.or(conflist)?;
        Some(format!("it may have a record: {problem}"))
    }

    /// True if the directory exists, and its reservations could not be read.
    pub(crate) fn is_unreadable(&self, directory: &Path) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|problem| directory.starts_with(&problem.path))
    }

    /// The addresses of a directory that aren't free, ascending.
    pub(crate) fn taken(&self, directory: &Path) -> &[IpAddr] {
        self.taken.get(directory).map_or(&[], Vec::as_slice)
    }

    /// True if any address is known to be reserved.
    pub(crate) fn has_reservations(&self) -> bool {
        !self.taken.is_empty()
    }

    /// The directories with addresses that have no configured pool.
    pub(crate) fn unconfigured_directories(&self) -> impl Iterator<Item = &Path> {
        let directories = self.taken.keys().map(PathBuf::as_path);
        directories.filter(|directory| {
            let mut pools = self.pools.all.iter();
            pools.all(|pool| pool.directory != *directory)
        })
    }
}

/// The name of an attachment: network, container and interface.
type AttachmentKey<'a> = (&'a str, &'a str, &'a str);

/// The attachment of a record.
fn record_key(record: &ListedRecord) -> AttachmentKey<'_> {
    let (container, ifname) = (&record.attachment.container_id, &record.attachment.ifname);
    (record.network.as_str(), container.as_str(), ifname.as_str())
}

/// The records of each attachment. Several are in different folders, and one is wrong.
fn by_attachment(
    records: &[Arc<ListedRecord>],
) -> HashMap<AttachmentKey<'_>, Vec<&Arc<ListedRecord>>> {
    let mut all: HashMap<_, Vec<_>> = HashMap::new();
    for record in records {
        all.entry(record_key(record)).or_default().push(record);
    }
    all
}
