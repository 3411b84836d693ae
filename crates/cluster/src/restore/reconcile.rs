//! Claims the addresses and blocks of a node again that a restored engine has lost.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cni::Error;
use ipam::IpNet;

use crate::block::{BlockFiles, PoolFile, block_of, overlap, reserved};
use crate::contents::{ClaimedBlock, claimed_blocks_of};
use crate::try_again;
use crate::value::{BlockOwner, Holder};
use crate::{
    Change, Condition, DefinedPools, Definition, Engine, Found, Group, HeldKey, Identity, Key,
    Node, Outcome, Read,
};

/// Most times that an object is read again, because it was changed meanwhile.
const MOST_TRIES: u32 = 10;

/// Outcome for an address or a block that this node uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// The engine still had it as this node's.
    Held,
    /// The engine had lost it. It was claimed again.
    Claimed,
    /// The engine has this instead: a person must decide.
    Conflict(String),
}

/// Claims an address again; `None` if `lives` says that its attachment was deleted meanwhile.
/// `pools` are read again if they were changed.
///
/// # Errors
///
/// Those of the engine; code 7 if another machine has the node's name; code 11 if others keep
/// changing the address.
pub fn reconcile_address(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    pools: &mut DefinedPools,
    held: &HeldKey,
    lives: impl Fn() -> bool,
) -> Result<Option<Reconciled>, Error> {
    let (network, attachment) = (held.network.as_str(), &held.attachment);
    let value = Holder::new(&held.node, network, attachment, None).to_value();
    let (address, entry) = (held.address(), Key::Held(held.clone()));
    let blocks = Group::Blocks(Some(held.pool.to_string()));
    for _ in 0..MOST_TRIES {
        let reads = vec![
            identity.read(),
            Read::Get(address.clone()),
            Read::Get(entry.clone()),
            Read::First(blocks.clone(), 1),
        ];
        let refusal = pools.refuse_address(held.pool.as_str(), held.ip);
        let change = Change {
            conditions: vec![
                identity.is_current(),
                Condition::Missing(address.clone()),
                Condition::Empty(blocks.clone()),
                pools.are_unchanged(),
            ],
            write: vec![
                (address.clone(), value.clone()),
                (entry.clone(), value.clone()),
            ],
            otherwise: reads,
            ..Change::default()
        };
        let outcome = commit_unless(engine, refusal.is_some(), &change)?;
        let found = |i: usize| outcome.found.get(i).and_then(Found::first);
        let (now, now_entry) = (found(1), found(2));
        if outcome.done || now.is_some_and(|now| now.value == value) {
            if lives() {
                return Ok(Some(Reconciled::Claimed));
            }
            // The attachment's DEL had ended before this claim, so the claim is undone.
            engine.commit(&Change {
                conditions: vec![
                    Condition::Value(address.clone(), value.clone()),
                    Condition::Value(entry.clone(), value),
                ],
                delete: vec![address, entry],
                ..Change::default()
            })?;
            return Ok(None);
        }
        if let Some(now) = now {
            let is_ours = Holder::parse(&now.value)
                .is_some_and(|holder| holder.node == held.node && holder.is(attachment, network));
            if !is_ours && !lives() {
                return Ok(None);
            }
            if !is_ours {
                return Ok(Some(Reconciled::Conflict(Holder::describe(&now.value))));
            }
            if now_entry.is_some_and(|entry| entry.value == now.value) {
                return Ok(Some(Reconciled::Held));
            }
            // DEL and GC find the address by this entry.
            let completed = engine.commit(&Change {
                conditions: vec![
                    identity.is_current(),
                    Condition::Value(address.clone(), now.value.clone()),
                ],
                write: vec![(entry.clone(), now.value.clone())],
                ..Change::default()
            })?;
            if completed.done {
                return Ok(Some(Reconciled::Claimed));
            }
        } else if let Some(block) = found(3) {
            let block = engine.path(&block.key);
            return Ok(Some(Reconciled::Conflict(format!(
                "pool {} is given in blocks, such as {block}",
                held.pool
            ))));
        }
        let is_missing = now.is_none();
        if identity.verify(engine, found(0))?
            && is_missing
            && let Some(why) = refusal
        {
            return Ok(lives().then_some(Reconciled::Conflict(why)));
        }
        *pools = DefinedPools::read(engine)?;
    }
    Err(changes_all_the_time(&engine.path(&address)))
}

/// Makes a change, or only answers its reads.
fn commit_unless(
    engine: &mut dyn Engine,
    is_refused: bool,
    change: &Change,
) -> Result<Outcome, Error> {
    if is_refused {
        return Ok(Outcome {
            found: engine.read(&change.otherwise)?,
            ..Outcome::default()
        });
    }
    Ok(engine.commit(change)?)
}

/// Claims the blocks in the node's files again, and the blocks of addresses that are reserved on
/// the node. Returns each with its pool. The node's other blocks in the engine are given back: the
/// node has given them back before, after the state that was restored.
///
/// A lock keeps other processes of the node from claiming meanwhile. A process whose claim was
/// answered before the restore may not have written its answer to the file yet.
///
/// # Errors
///
/// As [`reconcile_address`]; code 5 for a file that can't be read.
pub fn reconcile_blocks(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    pools: &mut DefinedPools,
    node: &Node,
) -> Result<Vec<(String, IpNet, Reconciled)>, Error> {
    // A claim writes its pool's file before it asks the engine.
    if !BlockFiles::may_exist(node) {
        return Ok(Vec::new());
    }
    let files = BlockFiles::open(node, PathBuf::new())?;
    let done = files.locked(node.timeout, || {
        let mut all = Vec::new();
        for file in files.all()? {
            let pool = file.pool().to_owned();
            let (own, others): (Vec<_>, Vec<_>) = claimed_blocks_of(engine, &pool)?
                .into_iter()
                .partition(|claimed| claimed.node() == node.name);
            give_back_unused(engine, identity, &file, &own)?;
            let known = file.definition(engine)?;
            for (cidr, owner) in living(node, &file, &known)? {
                let overlapping = others.iter().find(|other| overlap(other.block, cidr));
                let state = match overlapping {
                    Some(other) if other.block != cidr => {
                        let block = other.block;
                        Reconciled::Conflict(match &other.owner {
                            Some(owner) => format!("block {block} is node {}'s", owner.node),
                            None => format!("block {block} is held by content that isn't ours"),
                        })
                    }
                    _ => reconcile_block(engine, identity, pools, &known, &pool, cidr, &owner)?,
                };
                all.push((pool.clone(), cidr, state));
            }
        }
        Ok(all)
    })?;
    done.ok_or_else(|| {
        try_again("another process of this node is claiming a block: run this again")
    })
}

/// Gives back the blocks of this node that are not in its file, and in which no address is
/// reserved. While there are marks, no other node claims them. If an ADD uses one just now, the
/// mark stays until it has ended, and the next run finds its reservation.
fn give_back_unused(
    engine: &mut dyn Engine,
    identity: &Identity<'_>,
    file: &PoolFile,
    own: &[ClaimedBlock],
) -> Result<(), Error> {
    let pool = file.pool();
    let reserved = reserved(file.data_dir(), pool)?;
    for claimed in own {
        let cidr = &claimed.block;
        let is_listed = file.blocks.iter().any(|block| overlap(block.cidr, *cidr));
        if is_listed || reserved.iter().any(|ip| cidr.contains(ip)) {
            continue;
        }
        let key = Key::Block(pool.to_owned(), *cidr);
        let is_same = Condition::Revision(key.clone(), claimed.revision);
        let outcome = engine.commit(&Change {
            conditions: vec![identity.is_current(), is_same],
            delete: vec![key],
            ..Change::default()
        })?;
        if outcome.done || outcome.resent {
            tracing::warn!(block = %cidr, pool, "gave back a block that this node doesn't use");
        }
    }
    Ok(())
}

/// The blocks of a pool that this node uses, each with its value.
fn living(
    node: &Node,
    file: &PoolFile,
    definition: &Definition,
) -> Result<Vec<(IpNet, BlockOwner)>, Error> {
    let listed = file.blocks.iter();
    let mut blocks: Vec<_> = listed
        .map(|block| (block.cidr, block.owner.clone()))
        .collect();
    let ranges = &definition.pool.ranges;
    let unlisted: BTreeSet<IpNet> = reserved(file.data_dir(), file.pool())?
        .into_iter()
        .filter(|ip| ranges.contains(*ip) && !blocks.iter().any(|(cidr, _)| cidr.contains(ip)))
        .filter_map(|ip| block_of(ip, definition.block?))
        .collect();
    blocks.extend(
        unlisted
            .into_iter()
            .map(|cidr| (cidr, BlockOwner::new(&node.name))),
    );
    Ok(blocks)
}

/// Claims a block of this pool again, which has the definition `known` in the node's file.
fn reconcile_block(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    pools: &mut DefinedPools,
    known: &Definition,
    pool: &str,
    cidr: IpNet,
    owner: &BlockOwner,
) -> Result<Reconciled, Error> {
    let key = Key::Block(pool.to_owned(), cidr);
    let addresses = Group::Addresses(Some(pool.to_owned()));
    let value = owner.to_value();
    let mut old = None;
    for _ in 0..MOST_TRIES {
        // A different value of this node, from before the restore, is replaced with the value in
        // its file.
        let is_as_found = match old.take() {
            None => Condition::Missing(key.clone()),
            Some(old) => Condition::Value(key.clone(), old),
        };
        let is_missing = is_as_found == Condition::Missing(key.clone());
        let refusal = pools.refuse_block(pool, cidr, known).filter(|_| is_missing);
        let change = Change {
            conditions: vec![
                identity.is_current(),
                is_as_found,
                Condition::Empty(addresses.clone()),
                pools.are_unchanged(),
            ],
            write: vec![(key.clone(), value.clone())],
            otherwise: vec![
                identity.read(),
                Read::Get(key.clone()),
                Read::First(addresses.clone(), 1),
            ],
            ..Change::default()
        };
        let outcome = commit_unless(engine, refusal.is_some(), &change)?;
        if outcome.done {
            return Ok(Reconciled::Claimed);
        }
        let found = |i: usize| outcome.found.get(i).and_then(Found::first);
        let now = found(1);
        if let Some(now) = now {
            if now.value == value {
                return Ok(match outcome.resent {
                    true => Reconciled::Claimed,
                    false => Reconciled::Held,
                });
            }
            match BlockOwner::parse(&now.value) {
                Some(other) if other.node == owner.node => old = Some(now.value.clone()),
                _ => {
                    let other = BlockOwner::describe(&now.value);
                    return Ok(Reconciled::Conflict(format!("it is {other}")));
                }
            }
        }
        if let Some(address) = found(2) {
            let address = engine.path(&address.key);
            return Ok(Reconciled::Conflict(format!(
                "addresses of pool {pool} are given one by one, such as {address}"
            )));
        }
        let is_gone = now.is_none();
        if identity.verify(engine, found(0))?
            && is_gone
            && let Some(why) = refusal
        {
            return Ok(Reconciled::Conflict(why));
        }
        *pools = DefinedPools::read(engine)?;
    }
    Err(changes_all_the_time(&engine.path(&key)))
}

/// The error for a claim that the engine refuses without a visible reason.
fn changes_all_the_time(path: &str) -> Error {
    try_again(format!(
        "{path} is changed by others all the time: run this again"
    ))
}
