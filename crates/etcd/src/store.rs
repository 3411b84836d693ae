//! The store of a cluster on etcd. A verb is one transaction, or lists page by page. A reserved address
//! has two keys, its own with the holder, and one by which a node's or an owner's addresses are found;
//! one transaction makes both, and one deletes them.

use std::net::IpAddr;

use cluster::{
    AddressKey, Among, Claim, Held, Holder, Inventory, Kind, ListedPool, Release, Selection, Store,
    StoreError, TimeLimit,
};
use cni::{Cancellation, Object};
use ipam::Pool;

use crate::messages::KeyValue;
use crate::{Client, Compare, Keys, Op, Range, Settings, Txn};

/// A cluster's pools and addresses in etcd.
pub struct EtcdStore<'a> {
    keys: Keys,
    client: Client<'a>,
}

impl<'a> EtcdStore<'a> {
    /// A store for one call. It connects with the first request.
    pub fn new(settings: Settings, cancellation: Option<&'a dyn Cancellation>) -> Self {
        let time = TimeLimit::new(settings.timeout, cancellation);
        Self {
            keys: Keys::new(&settings.prefix),
            client: Client::new(settings, time),
        }
    }

    /// Defines a pool, or replaces its definition. Addresses that are reserved stay so.
    ///
    /// # Errors
    ///
    /// See [`Kind`]. May be repeated.
    pub fn define(&mut self, name: &str, definition: &Object) -> Result<(), StoreError> {
        let value = serde_json::to_vec(definition).expect("an object is JSON");
        let txn = Txn {
            then: vec![Op::put(self.keys.pool(name), value)],
            ..Txn::default()
        };
        self.client.txn(&txn).map(drop)
    }

    /// Lists the addresses whose keys are in this range, behind this prefix.
    fn names_in(&mut self, range: &Range, prefix: &str) -> Result<Vec<AddressKey>, StoreError> {
        let mut names = Vec::new();
        self.client.each(range, |stored| {
            names.extend(Keys::parse(&stored.key, prefix));
        })?;
        Ok(names)
    }
}

/// The definition in a key, which must be a JSON object.
fn definition(stored: &KeyValue) -> Result<Object, StoreError> {
    serde_json::from_slice(&stored.value).map_err(|error| {
        let key = String::from_utf8_lossy(&stored.key);
        let why = format!("etcd:{key}: it is no JSON object: {error}");
        StoreError::new(Kind::Settings, why)
    })
}

/// An address as it is stored.
fn held(key: AddressKey, stored: &KeyValue) -> Held {
    Held {
        key,
        holder: serde_json::from_slice(&stored.value).ok(),
        id: String::from_utf8_lossy(&stored.value).into_owned(),
        created: u64::try_from(stored.create_revision).unwrap_or_default(),
    }
}

impl Store for EtcdStore<'_> {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn path_of_pool(&self, name: &str) -> String {
        format!("etcd:{}", self.keys.pool(name))
    }

    fn path_of_address(&self, key: &AddressKey) -> String {
        format!("etcd:{}", self.keys.address(key))
    }

    fn time(&self) -> &TimeLimit<'_> {
        self.client.time()
    }

    fn pool(&mut self, name: &str) -> Result<Option<Object>, StoreError> {
        let answer = self.client.range(Range::key(self.keys.pool(name)))?;
        let stored = answer.kvs.first();
        stored.map(definition).transpose()
    }

    fn claim(
        &mut self,
        key: &AddressKey,
        holder: &Holder,
        latest: u64,
    ) -> Result<Claim, StoreError> {
        let address = self.keys.address(key);
        let id = serde_json::to_string(holder).expect("a holder is JSON");
        let mut when = vec![Compare::is_missing(&*address)];
        when.extend(holder.owner_hash().map(|hash| {
            let own = Range::prefix(self.keys.owner(&hash));
            Compare::has_none_after(own, latest)
        }));
        let txn = Txn {
            when,
            then: vec![
                Op::put(&*address, &*id),
                Op::put(self.keys.of_holder(holder, key), ""),
            ],
        };
        Ok(match self.client.txn(&txn)? {
            true => Claim::Created { id },
            false => Claim::Taken,
        })
    }

    /// Reads them at one moment.
    fn read(&mut self, keys: &[AddressKey]) -> Result<Vec<Held>, StoreError> {
        let reads = keys.iter().map(|key| Range::key(self.keys.address(key)));
        let answers = self.client.ranges(reads)?;
        let both = keys.iter().zip(&answers);
        let held = both.filter_map(|(key, answer)| {
            let stored = answer.kvs.first()?;
            Some(held(key.clone(), stored))
        });
        Ok(held.collect())
    }

    fn release(&mut self, held: &Held) -> Result<Release, StoreError> {
        let address = self.keys.address(&held.key);
        let mut then = vec![Op::delete(&*address)];
        if let Some(holder) = &held.holder {
            then.push(Op::delete(self.keys.of_holder(holder, &held.key)));
        }
        let txn = Txn {
            when: vec![Compare::has_value(address, &*held.id)],
            then,
        };
        Ok(match self.client.txn(&txn)? {
            true => Release::Released,
            false => Release::Gone,
        })
    }

    /// Lists all of the node's, or of the owner's.
    fn list(&mut self, selection: &Selection<'_>) -> Result<Vec<AddressKey>, StoreError> {
        let prefix = match selection {
            Selection::Attachment(own) => self.keys.node(&own.node.name),
            Selection::Node(node) | Selection::Stale { node, .. } => self.keys.node(node),
            Selection::Owner(hash) => self.keys.owner(hash),
        };
        self.names_in(&Range::prefix(&*prefix).without_values(), &prefix)
    }

    fn taken(&mut self, pool: &Pool, among: Among<'_>) -> Result<Vec<IpAddr>, StoreError> {
        if let Among::Some(ips) = among {
            // The claim decides, so what one member knows is enough.
            let name = |ip: &IpAddr| Range {
                serializable: true,
                ..Range::key(self.keys.address(&AddressKey::of(pool, *ip))).without_values()
            };
            let answers = self.client.ranges(ips.iter().map(name))?;
            let both = ips.iter().zip(&answers);
            let taken = both.filter(|(_, answer)| !answer.kvs.is_empty());
            return Ok(taken.map(|(ip, _)| *ip).collect());
        }
        let prefix = self.keys.addresses();
        let mut taken = Vec::new();
        for range in self.keys.taken(pool) {
            let keys = self.names_in(&range, &prefix)?.into_iter();
            // The name of a space may lie between two addresses.
            let own = keys.filter(|key| key.space == pool.space);
            taken.extend(own.map(|key| key.ip));
        }
        Ok(taken)
    }
}

impl Inventory for EtcdStore<'_> {
    fn pools(&mut self) -> Result<Vec<ListedPool>, StoreError> {
        let prefix = self.keys.pools();
        let mut pools = Vec::new();
        self.client.each(&Range::prefix(&*prefix), |stored| {
            let name = String::from_utf8_lossy(&stored.key[prefix.len()..]).into_owned();
            pools.push((name, definition(&stored)));
        })?;
        Ok(pools)
    }

    fn names(&mut self) -> Result<Vec<AddressKey>, StoreError> {
        let prefix = self.keys.addresses();
        self.names_in(&Range::prefix(&*prefix).without_values(), &prefix)
    }

    fn addresses(&mut self, each: &mut dyn FnMut(Held)) -> Result<(), StoreError> {
        let prefix = self.keys.addresses();
        self.client.each(&Range::prefix(&*prefix), |stored| {
            if let Some(key) = Keys::parse(&stored.key, &prefix) {
                each(held(key, &stored));
            }
        })
    }
}
