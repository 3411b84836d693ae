//! The addresses of a cluster's pools, as etcd has them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

use cluster::{Definition, Holder};
use cni::NetworkName;
use conflist::Problem;
use ipam::Pool;
use reservations::tools::ListedAddress;
use reservations::{Reservation, State};

use super::{EtcdCluster, PAGE};

/// What etcd has of a cluster's pools.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The pools that are defined and not given in blocks.
    pub(crate) defined: Vec<Pool>,
    /// The pools' addresses.
    pub(crate) pools: Vec<PoolView>,
    /// Keys whose content can't be used.
    pub(crate) problems: Vec<Problem>,
}

/// The addresses of one pool.
#[derive(Debug)]
pub(crate) struct PoolView {
    pub(crate) name: NetworkName,
    /// The reserved addresses, lowest first.
    pub(crate) taken: Vec<IpAddr>,
    /// Those of this node, lowest first.
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
    /// Reads the pools. `used` are those that conflists define by themselves.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn view(&self, used: &BTreeSet<NetworkName>) -> Result<View, etcd::Error> {
        let keys = &self.cluster.keys;
        let mut client = self.client()?;
        let mut view = View::default();
        let mut names = used.clone();
        for it in self.definitions(&mut view.problems)? {
            if it.1.block.is_none() {
                names.insert(it.0.clone());
                view.defined.push(it.1.pool);
            }
        }
        for name in names {
            let pool = name.as_str();
            let mut taken = Vec::new();
            client.pages::<etcd::Error>(&keys.addresses(pool), PAGE, true, |_, page| {
                taken.extend(
                    page.iter()
                        .filter_map(|it| keys.parse_address(pool, &it.key)),
                );
                Ok(())
            })?;
            taken.sort_unstable();
            view.pools.push(PoolView {
                name,
                taken,
                listed: Vec::new(),
            });
        }
        let node = &self.cluster.node;
        client.pages::<etcd::Error>(&keys.node(node), PAGE, false, |_, page| {
            for it in page {
                let Some(held) = keys.parse_held(node, &it.key) else {
                    continue;
                };
                let listed = ListedAddress {
                    ip: held.ip,
                    state: State::Reserved(Reservation {
                        container_id: held.attachment.container_id.to_string(),
                        ifname: Some(held.attachment.ifname.to_string()),
                        network: Some(held.network.to_string()),
                    }),
                    network: Some(held.network.to_string()),
                    since: Holder::parse(&it.value).and_then(|it| since(&it)),
                };
                match view.pools.iter_mut().find(|it| it.name == held.pool) {
                    Some(known) => known.listed.push(listed),
                    // Nobody defines it any more.
                    None => view.pools.push(PoolView {
                        name: held.pool,
                        taken: vec![held.ip],
                        listed: vec![listed],
                    }),
                }
            }
            Ok(())
        })?;
        for pool in &mut view.pools {
            pool.listed.sort_unstable_by_key(|it| it.ip);
        }
        Ok(view)
    }

    /// All defined pools by their names; keys with wrong content are problems.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn definitions(
        &self,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<(NetworkName, Definition)>, etcd::Error> {
        let prefix = self.cluster.keys.pools();
        let mut found = Vec::new();
        self.client()?
            .pages::<etcd::Error>(&prefix, PAGE, false, |_, page| {
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
                            found.push((name, definition));
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
    pub(crate) fn members(&self) -> Result<Vec<Member>, etcd::Error> {
        let keys = &self.cluster.keys;
        let prefix = keys.all_addresses();
        let mut found = Vec::new();
        self.client()?
            .pages::<etcd::Error>(&prefix, PAGE, false, |_, page| {
                found.extend(page.iter().filter_map(|it| {
                    let rest = str::from_utf8(&it.key).ok()?.strip_prefix(&prefix)?;
                    let pool: NetworkName = rest.split_once('/')?.0.parse().ok()?;
                    Some(Member {
                        ip: keys.parse_address(pool.as_str(), &it.key)?,
                        holder: Holder::parse(&it.value),
                        pool,
                    })
                }));
                Ok(())
            })?;
        found.sort_by(|a, b| (&a.pool, a.ip).cmp(&(&b.pool, b.ip)));
        Ok(found)
    }
}

/// The time of an ADD, if the holder says it in our way.
pub(crate) fn since(holder: &Holder) -> Option<SystemTime> {
    humantime::parse_rfc3339(&holder.since).ok()
}
