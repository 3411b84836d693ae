//! Adds a cluster's pools and addresses to the inventory, and to each address what its release needs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use cluster::{Held, Inventory as Store, of_node, until_answered};
use cni::NetworkName;
use conflist::Problem;
use ipam::Pool;

use super::cluster_address::ClusterAddress;
use super::container_names::ContainerNames;
use super::row::{Row, RowState};
use super::{Inventory, NodeScope};
use crate::clusters::{Cluster, addresses};
use crate::pools::PlacedPool;

impl Inventory {
    /// Adds the pools of a cluster, and the addresses of these nodes.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) fn add_cluster(&mut self, cluster: &Arc<Cluster>, scope: NodeScope) -> Result<()> {
        let store = &mut *cluster.open()?;
        self.read_pools(cluster, store)?;
        let places = HashMap::new();
        let mut rows = ClusterRows { cluster, places };
        let first = self.rows.len();
        match (scope, &cluster.node) {
            (NodeScope::CountsOnly, _) => {
                for key in until_answered(store, |store| store.names())? {
                    let place = rows.place(key.space.as_ref());
                    let taken = self.taken.entry(place.to_path_buf());
                    taken.or_default().push(key.ip);
                }
            }
            // A long list: there is no second one for a moment.
            (NodeScope::AllNodes, _) => until_answered(store, |store| {
                self.rows.truncate(first);
                store.addresses(&mut |held| self.rows.push(rows.row(held)))
            })?,
            (NodeScope::ThisNode, Some(node)) => {
                let all = of_node(store, &node.name)?;
                self.rows.extend(rows.releasable(store, all));
            }
            (NodeScope::ThisNode | NodeScope::ThisNodeAndOwners, node) => {
                let all = addresses(store, |held| {
                    let holder = held.holder.as_ref();
                    node.as_ref().is_none_or(|node| {
                        holder.is_some_and(|of| of.owner.is_some() || of.node == node.name)
                    })
                })?;
                self.rows.extend(rows.releasable(store, all));
            }
        }
        self.rows[first..].sort_unstable_by_key(|row| (row.place.clone(), row.ip));
        Ok(())
    }

    fn read_pools(&mut self, cluster: &Cluster, store: &mut dyn Store) -> Result<()> {
        for (name, definition) in until_answered(store, |store| store.pools())? {
            let path = store.path_of_pool(&name);
            let read = definition.map_err(|error| error.msg);
            let pool = read.and_then(|mut definition| {
                definition.set("name", &name);
                Pool::read(&path, definition).map_err(|error| error.msg)
            });
            match pool {
                Ok(pool) => self.pools.add(PlacedPool {
                    directory: cluster.place(pool.space.as_ref()).into(),
                    pool,
                    networks: cluster.networks_of(&name),
                }),
                Err(why) => self.problems.push(Problem::new(path, why)),
            }
        }
        Ok(())
    }
}

/// The address spaces of a cluster, each one value for all of its rows.
struct ClusterRows<'c> {
    cluster: &'c Arc<Cluster>,
    places: HashMap<Option<NetworkName>, Arc<Path>>,
}

impl ClusterRows<'_> {
    fn place(&mut self, space: Option<&NetworkName>) -> Arc<Path> {
        let new = || PathBuf::from(self.cluster.place(space)).into();
        let place = self.places.entry(space.cloned());
        Arc::clone(place.or_insert_with(new))
    }

    /// Rows of addresses with what their release needs.
    fn releasable(&mut self, store: &dyn Store, all: Vec<Held>) -> Vec<Row> {
        let row = |held: Held| {
            let stored = ClusterAddress {
                cluster: Arc::clone(self.cluster),
                path: store.path_of_address(&held.key),
                held: held.clone(),
            };
            let mut row = self.row(held);
            row.in_cluster = Some(Arc::new(stored));
            row
        };
        all.into_iter().map(row).collect()
    }

    fn row(&mut self, held: Held) -> Row {
        let mut row = Row {
            ip: Some(held.key.ip),
            state: RowState::Unreadable,
            place: Some(self.place(held.key.space.as_ref())),
            is_held_elsewhere: self.cluster.is_held_elsewhere(&held),
            ..Row::default()
        };
        if let Some(holder) = held.holder {
            row.state = RowState::Reserved;
            row.names = ContainerNames::of_pod(holder.namespace.as_deref(), holder.pod.as_deref());
            row.since = humantime::parse_rfc3339(&holder.since).ok();
            row.network = Some(holder.network);
            row.pool = Some(holder.pool);
            row.owner = holder.owner.map(|owner| owner.name);
            row.node = Some(holder.node).filter(|_| row.owner.is_none());
            row.container = Some(holder.container_id).filter(|_| row.owner.is_none());
            row.ifname = Some(holder.ifname);
        }
        row
    }
}
