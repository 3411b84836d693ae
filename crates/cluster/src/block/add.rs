//! ADD of a selector: returns the node's blocks of each pool, and claims another one if they are
//! nearly full.

use std::path::Path;
use std::time::Duration;

use cni::{Call, Error, IpamResult, Object, code};

use super::BlockNode;
use super::asked::{AskedPool, asked_pools};
use super::claim::Claims;
use super::known_pools::with_pools;
use super::pool_file::{BootTime, PoolFile};
use super::room::Need;
use crate::try_again;
use crate::{Engine, Node};

/// Longest time for a claim while the node's blocks still have room.
const AHEAD_OF_NEED: Duration = Duration::from_secs(1);

/// `prevResult`, in which each pool has the node's blocks as its ranges. While the blocks have
/// room, the engine isn't asked. `data_dir` is `ipam.dataDir`.
///
/// # Errors
///
/// Code 11 if no block is free; code 111 if a requested address is in another node's block; code 7
/// for an invalid configuration, or if another machine has the node's name; those of the engine.
pub fn add(
    engine: &mut dyn Engine,
    node: &Node,
    data_dir: &Path,
    call: &Call<'_>,
) -> Result<IpamResult, Error> {
    let pools = asked_pools(&call.config)?;
    if pools.is_empty() {
        return Err(no_pools());
    }
    let mut add = Add {
        engine,
        node,
        data_dir,
        call,
    };
    let entries: Result<Vec<Object>, Error> = pools.iter().map(|pool| add.entry(pool)).collect();
    with_pools(call, &entries?)
}

/// The error for a chain without a selector before this one.
pub(super) fn no_pools() -> Error {
    Error::config(
        "prevResult.pools is missing or empty: a selector that names pools must stand before this one",
    )
}

struct Add<'a> {
    engine: &'a mut dyn Engine,
    node: &'a Node,
    data_dir: &'a Path,
    call: &'a Call<'a>,
}

impl Add<'_> {
    /// The entry of one pool in `prevResult.pools`.
    fn entry(&mut self, pool: &AskedPool) -> Result<Object, Error> {
        let node = BlockNode::open(self.node, self.data_dir, self.call)?;
        let file = node.files.read(&pool.name)?;
        if let Some(file) = file.filter(|file| node.is_verified(file)) {
            let definition = file.definition(self.engine)?;
            match node.need(pool, &file, &definition)? {
                Need::Nothing => return Ok(pool.with_blocks(&definition, file.used())),
                Need::Soon => {
                    if let Some(entry) = self.ahead_of_need(&node, pool)? {
                        return Ok(entry);
                    }
                }
                Need::Now(_) => {}
            }
        }
        let left = self.engine.time().remaining();
        let claimed = node.files.locked(left, || self.claim(pool))?;
        claimed.ok_or_else(|| {
            let within = humantime::format_duration(self.engine.time().bound());
            try_again(format!(
                "another process has been claiming blocks for longer than {within}"
            ))
        })
    }

    /// The entry of a pool that is nearly full. If the claim of another block fails, the pool
    /// still has room, and another process may be claiming. `None` if another process is comparing
    /// the blocks.
    fn ahead_of_need(
        &mut self,
        before: &BlockNode<'_>,
        pool: &AskedPool,
    ) -> Result<Option<Object>, Error> {
        let limit = *self.engine.time();
        self.engine.time().shorten(AHEAD_OF_NEED);
        let claimed = before.files.locked(Duration::ZERO, || self.claim(pool));
        *self.engine.time() = limit;
        let error = match claimed {
            Ok(Some(entry)) => return Ok(Some(entry)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let node = BlockNode::open(self.node, self.data_dir, self.call)?;
        let file = node.files.read(&pool.name)?;
        match (file.filter(|file| node.is_verified(file)), error) {
            (Some(file), error) => {
                if let Some(error) = error {
                    tracing::warn!(pool = pool.name, %error, "no further block; going on while there is room");
                }
                let definition = file.definition(self.engine)?;
                Ok(Some(pool.with_blocks(&definition, file.used())))
            }
            // Another machine has the node's name, and may use its blocks.
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// Compares the node's blocks with the engine's, and claims one if it is still needed. A lock
    /// keeps other processes of the node from doing so at the same time.
    fn claim(&mut self, pool: &AskedPool) -> Result<Object, Error> {
        // While this process waited, another one may have registered the node or claimed a block.
        let node = &BlockNode::open(self.node, self.data_dir, self.call)?;
        let mut file = node.files.read(&pool.name)?;
        if let Some(file) = &file
            && node.is_verified(file)
        {
            let definition = file.definition(self.engine)?;
            if node.need(pool, file, &definition)? == Need::Nothing {
                return Ok(pool.with_blocks(&definition, file.used()));
            }
        }
        let claimed = Claims::new(self.engine, self.node, self.call)
            .and_then(|mut claims| renew(node, pool, &mut claims, &mut file));
        let error = match claimed {
            Ok(entry) => return Ok(entry),
            Err(error) => error,
        };
        let Some(mut file) = file else {
            return Err(error);
        };
        if node.is_verified(&file) {
            file.failed = Some(BootTime::now(node.boot.as_deref()));
            if let Err(error) = node.files.write(&file) {
                tracing::warn!(%error, "the engine will be asked again at once");
            }
            return Err(error);
        }
        // The error of an invalid configuration is returned as it is.
        if file.blocks.is_empty() || error.code == code::INVALID_CONFIG {
            return Err(error);
        }
        let msg = format!(
            "pool {}: this node's blocks have to be compared with {}'s after a boot before they are used: {}",
            pool.name,
            self.engine.name(),
            error.msg
        );
        Err(Error::new(error.code, msg).with_details(error.details))
    }
}

fn renew(
    node: &BlockNode<'_>,
    pool: &AskedPool,
    claims: &mut Claims<'_>,
    file: &mut Option<PoolFile>,
) -> Result<Object, Error> {
    let definition = claims.definition(&pool.name)?;
    let object = definition.object().clone();
    let file = file.get_or_insert_with(|| PoolFile::new(&node.files, &pool.name, object));
    // Also needed after a restore of the engine: a block that the engine has lost would be claimed
    // as a new one.
    claims.compare(&node.files, file, Some(&definition))?;
    file.definition = definition.object().clone();
    node.files.write(file)?;
    file.failed = None;
    loop {
        let block = match node.need(pool, file, &definition)? {
            Need::Nothing => break,
            Need::Soon => None,
            Need::Now(block) => block,
        };
        // A block that GC has put aside still belongs to the node.
        if !file.use_again(block) {
            claims.claim(&node.files, file, &definition, block)?;
            break;
        }
        node.files.write(file)?;
    }
    Ok(pool.with_blocks(&definition, file.used()))
}
