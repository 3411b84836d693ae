//! The addresses of a cluster's pools, as etcd has them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::SystemTime;

use cluster::{Cluster, Definition, Holder};
use cni::NetworkName;
use conflist::Problem;
use etcd::Client;
use ipam::Pool;
use reservations::view::ListedAddress;
use reservations::{Reservation, State};

use super::{EtcdCluster, PAGE};
use crate::output::warn;

/// What etcd has of a cluster's pools.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The pools that are defined and not given in blocks.
    pub(crate) defined: Vec<Pool>,
    /// The pools' addresses, by pool: those of the pools that nobody defines any more, too.
    pub(crate) pools: Vec<PoolView>,
    /// Keys whose content can't be used.
    pub(crate) problems: Vec<Problem>,
}

/// A pool that is defined.
#[derive(Debug)]
pub(crate) struct DefinedPool {
    pub(crate) name: NetworkName,
    pub(crate) definition: Definition,
    /// The definition as etcd has it.
    pub(crate) value: Vec<u8>,
}

/// The addresses of one pool.
#[derive(Debug)]
pub(crate) struct PoolView {
    pub(crate) name: NetworkName,
    /// The reserved addresses, lowest first.
    pub(crate) taken: Vec<IpAddr>,
    /// Those of this node, lowest first, if they were asked for.
    pub(crate) listed: Vec<ListedAddress>,
}

/// An address of any node.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) pool: NetworkName,
    pub(crate) ip: IpAddr,
    /// `None` for foreign content.
    pub(crate) holder: Option<Holder>,
}

impl EtcdCluster {
    /// Reads the pools. `used` are those that conflists define by themselves; `lists` is true
    /// if the addresses of this node are to be listed.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn view(
        &self,
        client: &mut Client<'_>,
        used: BTreeSet<NetworkName>,
        lists: bool,
    ) -> Result<View, etcd::Error> {
        let mut view = View::default();
        // Those without an address are there, too.
        let mut taken: BTreeMap<NetworkName, Vec<IpAddr>> = BTreeMap::new();
        taken.extend(used.into_iter().map(|name| (name, Vec::new())));
        for it in self.definitions(client, &mut view.problems)? {
            if it.definition.block.is_none() {
                taken.insert(it.name, Vec::new());
                view.defined.push(it.definition.pool);
            }
        }
        self.addresses(client, true, |pool, ip, _| {
            taken.entry(pool).or_default().push(ip);
        })?;
        let mut listed = if lists {
            self.listed(client)?
        } else {
            BTreeMap::new()
        };
        for (name, its) in &listed {
            // Of a pool whose first address was reserved after the pools were read.
            let ips = || its.iter().map(|it| it.ip).collect();
            taken.entry(name.clone()).or_insert_with(ips);
        }
        for (name, mut taken) in taken {
            taken.sort_unstable();
            view.pools.push(PoolView {
                listed: listed.remove(&name).unwrap_or_default(),
                name,
                taken,
            });
        }
        Ok(view)
    }

    /// The addresses of this node by pool, lowest first.
    fn listed(
        &self,
        client: &mut Client<'_>,
    ) -> Result<BTreeMap<NetworkName, Vec<ListedAddress>>, etcd::Error> {
        let Cluster { keys, node, .. } = &self.cluster;
        let mut found: BTreeMap<NetworkName, Vec<ListedAddress>> = BTreeMap::new();
        client.pages::<etcd::Error>(&keys.node(node), PAGE, false, |_, page| {
            for it in page {
                let Some(held) = keys.parse_held(node, &it.key) else {
                    continue;
                };
                found.entry(held.pool).or_default().push(ListedAddress {
                    ip: held.ip,
                    state: State::Reserved(Reservation {
                        container_id: held.attachment.container_id.to_string(),
                        ifname: Some(held.attachment.ifname.to_string()),
                        network: Some(held.network.to_string()),
                    }),
                    network: Some(held.network.to_string()),
                    since: Holder::parse(&it.value).and_then(|it| since(&it)),
                });
            }
            Ok(())
        })?;
        for listed in found.values_mut() {
            listed.sort_unstable_by_key(|it| it.ip);
        }
        Ok(found)
    }

    /// All defined pools by their names; keys with wrong content are problems.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn definitions(
        &self,
        client: &mut Client<'_>,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<DefinedPool>, etcd::Error> {
        let prefix = self.cluster.keys.pools();
        let mut found = Vec::new();
        client.pages::<etcd::Error>(&prefix, PAGE, false, |_, page| {
            for it in page {
                let key = String::from_utf8_lossy(&it.key).into_owned();
                let name = key.strip_prefix(&prefix).unwrap_or_default();
                let read = name
                    .parse::<NetworkName>()
                    .map_err(|error| format!("{name:?} can't name a pool: {error}"))
                    .and_then(|name| {
                        let definition = Definition::parse(&key, &it.value);
                        Ok((name, definition.map_err(|error| error.to_string())?))
                    });
                match read {
                    Ok((name, mut definition)) => {
                        definition.pool.name = name.as_str().parse().ok();
                        found.push(DefinedPool {
                            name,
                            definition,
                            value: it.value,
                        });
                    }
                    Err(reason) => problems.push(Problem {
                        path: format!("etcd:{key}").into(),
                        reason,
                    }),
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The addresses of all nodes, by pool.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn members(&self, client: &mut Client<'_>) -> Result<Vec<Member>, etcd::Error> {
        let mut found = Vec::new();
        self.addresses(client, false, |pool, ip, value| {
            let holder = Holder::parse(&value);
            found.push(Member { pool, ip, holder });
        })?;
        found.sort_by(|a, b| (&a.pool, a.ip).cmp(&(&b.pool, b.ip)));
        Ok(found)
    }

    /// Hands each reserved address of any pool to `f`, with its value; with `keys_only`, that
    /// is empty.
    fn addresses(
        &self,
        client: &mut Client<'_>,
        keys_only: bool,
        mut f: impl FnMut(NetworkName, IpAddr, Vec<u8>),
    ) -> Result<(), etcd::Error> {
        let keys = &self.cluster.keys;
        let prefix = keys.all_addresses();
        client.pages(&prefix, PAGE, keys_only, |_, page| {
            for it in page {
                let pool = pool_of(&prefix, &it.key);
                let ip = pool
                    .as_ref()
                    .and_then(|pool| keys.parse_address(pool.as_str(), &it.key));
                match (pool, ip) {
                    (Some(pool), Some(ip)) => f(pool, ip, it.value),
                    _ => warn_of_foreign(&it.key),
                }
            }
            Ok(())
        })
    }
}

/// Says that a key is not counted.
pub(super) fn warn_of_foreign(key: &[u8]) {
    let key = cni::OneLine(key).to_string();
    warn(&format!(
        "{key} is no key of ours: it is left alone, and not counted"
    ));
}

/// The pool of a key below the prefix of all addresses or all blocks.
pub(super) fn pool_of(prefix: &str, key: &[u8]) -> Option<NetworkName> {
    let rest = str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    rest.split_once('/')?.0.parse().ok()
}

/// The time of an ADD, if the holder says it in our way.
pub(crate) fn since(holder: &Holder) -> Option<SystemTime> {
    humantime::parse_rfc3339(&holder.since).ok()
}
