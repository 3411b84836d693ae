//! The addresses of a cluster's pools, as etcd has them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::SystemTime;

use cluster::{Definition, Engine as _, EngineError, Group, Holder, Holding, Key, Stored};
use cni::NetworkName;
use conflist::Problem;
use etcd::Engine;
use ipam::Pool;
use reservations::view::ListedAddress;
use reservations::{Reservation, State};

use super::EtcdCluster;
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
        engine: &mut Engine<'_>,
        used: BTreeSet<NetworkName>,
        lists: bool,
    ) -> Result<View, EngineError> {
        let mut view = View::default();
        // Those without an address are there, too.
        let mut taken: BTreeMap<NetworkName, Vec<IpAddr>> = BTreeMap::new();
        taken.extend(used.into_iter().map(|name| (name, Vec::new())));
        for it in self.definitions(engine, &mut view.problems)? {
            if it.definition.block.is_none() {
                taken.insert(it.name, Vec::new());
                view.defined.push(it.definition.pool);
            }
        }
        self.addresses(engine, true, |pool, ip, _| {
            taken.entry(pool).or_default().push(ip);
        })?;
        let mut listed = if lists {
            self.listed(engine)?
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
        engine: &mut Engine<'_>,
    ) -> Result<BTreeMap<NetworkName, Vec<ListedAddress>>, EngineError> {
        let mut found: BTreeMap<NetworkName, Vec<ListedAddress>> = BTreeMap::new();
        let group = Group::Held(Holding::of_node(&self.cluster.node.name));
        for stored in engine.list(&group, true)? {
            let Key::Held(held) = stored.key else {
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
                since: Holder::parse(&stored.value).and_then(|holder| since(&holder)),
            });
        }
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
        engine: &mut Engine<'_>,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<DefinedPool>, EngineError> {
        let mut found = Vec::new();
        for Stored { key, value, .. } in engine.list(&Group::Pools, true)? {
            let path = engine.path(&key);
            let read = match &key {
                Key::Pool(name) => defined(name, &path, value),
                _ => Err("its name can't name a pool".to_owned()),
            };
            match read {
                Ok(pool) => found.push(pool),
                Err(reason) => problems.push(Problem {
                    path: format!("etcd:{path}").into(),
                    reason,
                }),
            }
        }
        Ok(found)
    }

    /// The addresses of all nodes, by pool.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn members(&self, engine: &mut Engine<'_>) -> Result<Vec<Member>, EngineError> {
        let mut found = Vec::new();
        self.addresses(engine, false, |pool, ip, value| {
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
        engine: &mut Engine<'_>,
        keys_only: bool,
        mut f: impl FnMut(NetworkName, IpAddr, Vec<u8>),
    ) -> Result<(), EngineError> {
        for stored in engine.list(&Group::Addresses(None), !keys_only)? {
            match stored.key {
                Key::Address(pool, ip) if pool.parse::<NetworkName>().is_ok() => {
                    let pool = pool.parse().expect("it was parsed just now");
                    f(pool, ip, stored.value);
                }
                key => warn_of_foreign(&engine.path(&key)),
            }
        }
        Ok(())
    }
}

/// A pool by its definition.
fn defined(name: &str, path: &str, value: Vec<u8>) -> Result<DefinedPool, String> {
    let name: NetworkName = name
        .parse()
        .map_err(|error| format!("{name:?} can't name a pool: {error}"))?;
    let mut definition = Definition::parse(path, &value).map_err(|error| error.msg)?;
    definition.pool.name = name.as_str().parse().ok();
    Ok(DefinedPool {
        name,
        definition,
        value,
    })
}

/// Says that a key is not counted.
pub(super) fn warn_of_foreign(key: &str) {
    let key = cni::OneLine(key.as_bytes()).to_string();
    warn(&format!(
        "{key} is no key of ours: it is left alone, and not counted"
    ));
}

/// The time of an ADD, if the holder says it in our way.
pub(crate) fn since(holder: &Holder) -> Option<SystemTime> {
    humantime::parse_rfc3339(&holder.since).ok()
}
