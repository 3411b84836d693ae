//! Rows of a cluster's addresses, and its pools.

use std::sync::Arc;

use anyhow::Result;
use cluster::{of_node, until_answered};
use conflist::Problem;
use ipam::Pool;

use super::Inventory;
use super::held::{HeldAddress, HeldState, Place};
use super::names::Names;
use super::stored::Stored;
use crate::clusters::Cluster;
use crate::pools::{PlacedPool, space_of};

impl Inventory {
    /// Adds the pools of a cluster and its addresses: this node's, or with `all` those of all nodes.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) fn read_cluster(&mut self, cluster: &Arc<Cluster>, all: bool) -> Result<()> {
        let store = &mut *cluster.open()?;
        for (name, mut definition) in until_answered(store, |store| store.pools())? {
            definition.set("name", &name);
            let path = store.path_of_pool(&name);
            match Pool::read(&path, definition) {
                Ok(pool) => self.pools.add(PlacedPool {
                    directory: cluster.place(space_of(&pool).as_ref()).into(),
                    pool,
                    networks: cluster.networks.clone(),
                }),
                Err(error) => self.problems.push(Problem::new(path.as_ref(), error.msg)),
            }
        }
        let mut listed = match &cluster.node {
            Some(node) if !all => of_node(store, &node.name),
            _ => until_answered(store, |store| store.addresses()),
        }?;
        listed.sort_by(|one, other| one.key.cmp(&other.key));
        for held in listed {
            self.held.push(HeldAddress::stored(Stored {
                cluster: Arc::clone(cluster),
                path: store.path_of_address(&held.key),
                held,
            }));
        }
        Ok(())
    }
}

impl HeldAddress {
    fn stored(stored: Stored) -> Self {
        let space = stored.held.key.space.as_ref();
        let place = Place {
            path: stored.cluster.place(space).into(),
            name: space.map_or_else(String::new, ToString::to_string),
        };
        let mut row = Self {
            ip: Some(stored.held.key.ip),
            state: HeldState::Unreadable,
            place: Some(Arc::new(place)),
            ..Self::default()
        };
        if let Some(holder) = &stored.held.holder {
            row.state = HeldState::Reserved;
            row.network = Some(holder.network.clone());
            row.pool = Some(holder.pool.clone());
            row.node = Some(holder.node.clone());
            row.container = Some(holder.container_id.clone());
            row.ifname = Some(holder.ifname.clone());
            row.since = humantime::parse_rfc3339(&holder.since).ok();
            row.names = Names::of_pod(holder.namespace.as_deref(), holder.pod.as_deref());
        }
        row.stored = Some(Arc::new(stored));
        row
    }
}
