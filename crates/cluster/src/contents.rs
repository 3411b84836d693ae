//! Lists the definitions, addresses and claimed blocks of all pools in an engine. A foreign key is
//! logged as a warning and left out.

use std::net::IpAddr;

use cni::{NetworkName, OneLine};
use ipam::IpNet;

use crate::{BlockOwner, Definition, Engine, EngineError, Group, Holder, Key, Stored};

/// A defined pool.
#[derive(Clone, Debug)]
pub struct DefinedPool {
    /// Its name.
    pub name: NetworkName,
    /// Its definition.
    pub definition: Definition,
    /// The definition in the engine, byte by byte.
    pub value: Vec<u8>,
}

/// A definition; for an invalid one, its path and the reason.
pub type ReadPool = Result<DefinedPool, (String, String)>;

/// An address of any node.
#[derive(Clone, Debug)]
pub struct HeldAddress {
    /// The pool.
    pub pool: NetworkName,
    /// The address.
    pub ip: IpAddr,
    /// `None` for foreign content.
    pub holder: Option<Holder>,
}

/// A block that a node has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedBlock {
    /// The pool.
    pub pool: NetworkName,
    /// The block.
    pub block: IpNet,
    /// `None` for foreign content.
    pub owner: Option<BlockOwner>,
    /// The revision of the claim.
    pub revision: i64,
}

impl ClaimedBlock {
    /// The node; `?` for foreign content.
    pub fn node(&self) -> &str {
        self.owner.as_ref().map_or("?", |owner| owner.node.as_str())
    }
}

impl DefinedPool {
    /// True if both definitions have the same keys and values, in any order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let parse = |value: &[u8]| serde_json::from_slice::<serde_json::Value>(value).ok();
        self.value == other.value || parse(&self.value) == parse(&other.value)
    }

    /// Reads a definition. Messages name `path`.
    ///
    /// # Errors
    ///
    /// The reason why the definition is invalid.
    pub fn read(name: &str, path: &str, value: Vec<u8>) -> Result<Self, String> {
        let name: NetworkName = name
            .parse()
            .map_err(|error| format!("{name:?} can't name a pool: {error}"))?;
        let mut definition = Definition::parse(path, &value).map_err(|error| error.msg)?;
        definition.pool.name = name.as_str().parse().ok();
        Ok(Self {
            name,
            definition,
            value,
        })
    }
}

/// All definitions; for an invalid one, its path and the reason.
///
/// # Errors
///
/// Those of the engine.
pub fn definitions(engine: &mut dyn Engine) -> Result<Vec<ReadPool>, EngineError> {
    let mut found = Vec::new();
    for Stored { key, value, .. } in engine.list(&Group::Pools, true)? {
        let path = engine.path(&key);
        let read = match &key {
            Key::Pool(name) => DefinedPool::read(name, &path, value),
            _ => Err("its name can't name a pool".to_owned()),
        };
        found.push(read.map_err(|reason| (path, reason)));
    }
    Ok(found)
}

/// The addresses of all nodes, by pool. Without `with_holders`, each holder is `None`.
///
/// # Errors
///
/// Those of the engine.
pub fn held_addresses(
    engine: &mut dyn Engine,
    with_holders: bool,
) -> Result<Vec<HeldAddress>, EngineError> {
    let mut found = Vec::new();
    for stored in engine.list(&Group::Addresses(None), with_holders)? {
        if let Key::Address(pool, ip) = &stored.key
            && let Ok(pool) = pool.parse()
        {
            found.push(HeldAddress {
                pool,
                ip: *ip,
                holder: Holder::parse(&stored.value),
            });
        } else {
            warn_of_foreign(engine, &stored.key);
        }
    }
    found.sort_by(|a, b| (&a.pool, a.ip).cmp(&(&b.pool, b.ip)));
    Ok(found)
}

/// The claimed blocks of all pools in ascending order, including pools without a definition.
///
/// # Errors
///
/// Those of the engine.
pub fn claimed_blocks(engine: &mut dyn Engine) -> Result<Vec<ClaimedBlock>, EngineError> {
    read_blocks(engine, None)
}

/// The claimed blocks of a pool in ascending order.
pub(crate) fn claimed_blocks_of(
    engine: &mut dyn Engine,
    pool: &str,
) -> Result<Vec<ClaimedBlock>, EngineError> {
    read_blocks(engine, Some(pool.to_owned()))
}

fn read_blocks(
    engine: &mut dyn Engine,
    pool: Option<String>,
) -> Result<Vec<ClaimedBlock>, EngineError> {
    let mut found = Vec::new();
    for stored in engine.list(&Group::Blocks(pool), true)? {
        if let Key::Block(pool, block) = &stored.key
            && let Ok(pool) = pool.parse()
        {
            found.push(ClaimedBlock {
                pool,
                block: *block,
                owner: BlockOwner::parse(&stored.value),
                revision: stored.revision,
            });
        } else {
            warn_of_foreign(engine, &stored.key);
        }
    }
    found.sort_by_key(|claimed| claimed.block.network());
    Ok(found)
}

fn warn_of_foreign(engine: &dyn Engine, key: &Key) {
    let path = engine.path(key);
    let path = OneLine(path.as_bytes());
    tracing::warn!("{path} is no key of ours: it is left alone, and not counted");
}
