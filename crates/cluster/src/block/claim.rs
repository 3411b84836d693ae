//! Claims blocks, and gives them back.

use std::collections::BTreeSet;

use cni::{Call, Error, code};
use ipam::IpNet;

use super::layout::{blocks, some_blocks};
use super::pool_file::{Block, BlockFiles, PoolFile, overlap};
use crate::restore::{LatestState, is_reconciled, read_marks, refuse_marks};
use crate::try_again;
use crate::value::BlockOwner;
use crate::{
    Change, Condition, Definition, Engine, Found, Group, Identity, Key, Node, Outcome, Read,
};

/// Most blocks that one request looks at.
pub(super) const AT_ONCE: usize = 60;

/// Most blocks of a pool that are all looked at. Of a larger pool, a random sample is.
const MOST_BLOCKS: usize = 1 << 16;

/// Most claims that an ADD tries. Each try has lost a block to another node.
const MOST_TRIES: u32 = 50;

/// Claims of blocks for this node, which is registered.
pub(super) struct Claims<'a> {
    pub(super) engine: &'a mut dyn Engine,
    pub(super) node: &'a Node,
    pub(super) identity: Identity<'a>,
    pub(super) latest_state: LatestState,
    /// Revision of the definition that was read last.
    defined_at: i64,
}

impl<'a> Claims<'a> {
    /// Registers the node, unless it is registered in this boot.
    ///
    /// # Errors
    ///
    /// Those of the engine; code 7 if another machine has the node's name.
    pub(super) fn new(
        engine: &'a mut dyn Engine,
        node: &'a Node,
        call: &'a Call<'_>,
    ) -> Result<Self, Error> {
        Ok(Self {
            // Read before the engine is asked, because other processes may note later states after
            // it.
            latest_state: LatestState::open(node)?,
            identity: Identity::of(node, call.environment, engine)?,
            engine,
            node,
            defined_at: 0,
        })
    }

    /// Reads the definition of a pool with blocks.
    ///
    /// # Errors
    ///
    /// Code 7, naming the pool's path, if the definition is missing or invalid, or has no `block`.
    pub(super) fn definition(&mut self, pool: &str) -> Result<Definition, Error> {
        let path = self.engine.path(&Key::Pool(pool.to_owned()));
        let definition = self.any_definition(pool)?.ok_or_else(|| {
            let name = self.engine.name();
            Error::config(format!(
                "{name} has no pool {pool:?}: {path} is missing; ipamctl import defines pools"
            ))
        })?;
        if definition.block.is_none() {
            return Err(Error::config(format!(
                "{path}.block is missing: ipam-ds-{0} gives blocks, and ipam-da-{0} the addresses of this pool",
                self.engine.name()
            )));
        }
        Ok(definition)
    }

    /// Reads a pool's definition; `None` if the engine has none.
    pub(super) fn any_definition(&mut self, pool: &str) -> Result<Option<Definition>, Error> {
        let key = Key::Pool(pool.to_owned());
        let Some(found) = self.engine.get(key.clone())? else {
            return Ok(None);
        };
        self.defined_at = found.revision;
        Definition::parse(&self.engine.path(&key), &found.value).map(Some)
    }

    /// Claims a free block of a pool: `wanted`, or any. The node's file is written before and
    /// after the claim.
    ///
    /// # Errors
    ///
    /// Those of the engine; code 11 if no block is free; code 111 if another node has the wanted
    /// block; code 7 if addresses of the pool are reserved one by one.
    pub(super) fn claim(
        &mut self,
        files: &BlockFiles,
        file: &mut PoolFile,
        definition: &Definition,
        wanted: Option<IpNet>,
    ) -> Result<(), Error> {
        let length = definition.block.unwrap_or_default();
        let others = self.of_other_lengths(file, length)?;
        let pool = file.pool().to_owned();
        let taken = |why: String| Err(Error::new(code::REQUESTED_TAKEN, why));
        if let Some(block) = wanted
            && let Some(other) = others.iter().find(|other| overlap(**other, block))
        {
            return taken(format!(
                "block {block} of pool {pool}, with the requested address, overlaps with {other}, which was claimed before block was changed to {length}"
            ));
        }
        let mut free: Vec<IpNet> = wanted.into_iter().collect();
        for _ in 0..MOST_TRIES {
            if free.is_empty() {
                free = self.free_blocks(&pool, definition, &others)?;
            }
            if free.is_empty() {
                return Err(no_block(&pool, definition));
            }
            let cidr = free.swap_remove(fastrand::usize(..free.len()));
            // Written before the claim: if this process is killed, the next one finds the block in
            // the file.
            file.claiming = Some(Block::new(cidr, BlockOwner::new(&self.node.name)));
            files.write(file)?;
            let other = self.try_claim(file)?;
            files.write(file)?;
            match (other, wanted) {
                (None, _) => return Ok(()),
                (Some(owner), Some(block)) => {
                    return taken(format!(
                        "block {block} of pool {pool}, with the requested address, is {owner}"
                    ));
                }
                (Some(_), None) => {}
            }
        }
        Err(try_again(format!(
            "other nodes took {MOST_TRIES} blocks of pool {pool} before this one got one"
        )))
    }

    /// Claims the block that is `claiming` in the node's file. If another node has it, returns
    /// that owner for messages.
    pub(super) fn try_claim(&mut self, file: &mut PoolFile) -> Result<Option<String>, Error> {
        let Some(claiming) = file.claiming.clone() else {
            return Ok(None);
        };
        self.latest_state.refuse_older(self.node, self.engine)?;
        let change = self.change(file.pool(), &claiming);
        // Without an answer, `claiming` stays in the file, and the next comparison finds the
        // block.
        let outcome = self.engine.commit(&change)?;
        file.claiming = None;
        let now = outcome.found.get(1).and_then(Found::first);
        if outcome.done || now.is_some_and(|now| now.value == claiming.owner.to_value()) {
            // Some engines show their revision only in the answer to a change.
            if let Err(error) = self.latest_state.refuse_older(self.node, self.engine) {
                self.give_back(&claiming, file.pool())?;
                return Err(error);
            }
            let cidr = claiming.cidr;
            tracing::debug!(%cidr, pool = file.pool(), "claimed a block");
            self.latest_state.remember(self.engine);
            file.blocks.retain(|block| block.cidr != cidr);
            file.blocks.push(claiming);
            return Ok(None);
        }
        self.reason(file.pool(), &outcome).map(Some)
    }

    /// Verifies that the node could claim a block now, without claiming one.
    ///
    /// # Errors
    ///
    /// Those of [`Self::claim`].
    pub(super) fn could_claim(&mut self, pool: &str, definition: &Definition) -> Result<(), Error> {
        let free = self.free_blocks(pool, definition, &[])?;
        let cidr = *free.first().ok_or_else(|| no_block(pool, definition))?;
        self.latest_state.refuse_older(self.node, self.engine)?;
        let block = Block::new(cidr, BlockOwner::new(&self.node.name));
        let outcome = self.engine.commit(&Change {
            dry_run: true,
            ..self.change(pool, &block)
        })?;
        self.reason(pool, &outcome).map(|_| ())
    }

    /// The change that claims a block. Its conditions: the engine was not restored, this machine
    /// has the node's name, the block is free, and the definition is the one that was read.
    fn change(&self, pool: &str, block: &Block) -> Change {
        let key = Key::Block(pool.to_owned(), block.cidr);
        let definition = Key::Pool(pool.to_owned());
        let addresses = Group::Addresses(Some(pool.to_owned()));
        Change {
            conditions: vec![
                self.identity.is_current(),
                Condition::Missing(key.clone()),
                // With a changed definition, the block might overlap with a block of another
                // length.
                Condition::Revision(definition.clone(), self.defined_at),
                Condition::Empty(addresses.clone()),
                is_reconciled(),
            ],
            write: vec![(key.clone(), block.owner.to_value())],
            otherwise: vec![
                self.identity.read(),
                Read::Get(key),
                Read::Get(definition),
                Read::First(addresses, 1),
                read_marks(),
            ],
            ..Change::default()
        }
    }

    /// The reason why a block was not claimed: its owner for messages, or an error.
    fn reason(&mut self, pool: &str, outcome: &Outcome) -> Result<String, Error> {
        let mut found = outcome.found.iter().map(Found::first);
        let mut next = || found.next().flatten();
        let (registered, now, defined, address) = (next(), next(), next(), next());
        let path = self.engine.path(&Key::Pool(pool.to_owned()));
        let again = |why: String| Err(try_again(why));
        if !self.identity.verify(self.engine, registered)? {
            return again(format!(
                "{} did not know node {} any more; it has registered again",
                self.engine.name(),
                self.node.name
            ));
        }
        refuse_marks(self.engine, outcome.found.get(4))?;
        if let Some(address) = address {
            let address = self.engine.path(&address.key);
            return Err(Error::config(format!(
                "{path}.block: addresses of this pool are given one by one, such as {address}: it can't be given in blocks before these are released"
            )));
        }
        if defined.is_none_or(|defined| defined.revision != self.defined_at) {
            return again(format!("{path} was changed just now"));
        }
        Ok(now.map_or_else(
            || "free by now; the next ADD claims it".to_owned(),
            |now| BlockOwner::describe(&now.value),
        ))
    }

    /// The blocks with another length than `length`, from before a change of the definition. Every
    /// claim compares the definition, so no such block can appear until the definition changes
    /// again. The pool's blocks are therefore read only once per definition.
    pub(super) fn of_other_lengths(
        &mut self,
        file: &mut PoolFile,
        length: u8,
    ) -> Result<Vec<IpNet>, Error> {
        if file.one_length_since == Some(self.defined_at) {
            return Ok(Vec::new());
        }
        let mut others = self.claimed(file.pool())?;
        others.retain(|block| block.prefix_len() != length);
        if others.is_empty() {
            file.one_length_since = Some(self.defined_at);
        }
        Ok(others.into_iter().collect())
    }

    /// The blocks of a pool that nodes have claimed.
    fn claimed(&mut self, pool: &str) -> Result<BTreeSet<IpNet>, Error> {
        let all = self
            .engine
            .list(&Group::Blocks(Some(pool.to_owned())), false)?;
        let block = |key: Key| match key {
            Key::Block(_, cidr) => Some(cidr),
            _ => None,
        };
        Ok(all
            .into_iter()
            .filter_map(|stored| block(stored.key))
            .collect())
    }

    /// Some free blocks that overlap with none of `others`; an empty list if no block is free.
    fn free_blocks(
        &mut self,
        pool: &str,
        definition: &Definition,
        others: &[IpNet],
    ) -> Result<Vec<IpNet>, Error> {
        let ranges = &definition.pool.ranges;
        let length = definition.block.unwrap_or_default();
        let is_apart = |block: &IpNet| others.iter().all(|other| !overlap(*other, *block));
        let some = some_blocks(ranges, length, AT_ONCE);
        let exists = |block: &IpNet| Read::Exists(Key::Block(pool.to_owned(), *block));
        let found = self
            .engine
            .read(&some.iter().map(exists).collect::<Vec<_>>())?;
        let both = some.into_iter().zip(found);
        let free: Vec<IpNet> = both
            .filter(|(block, found)| found.number == 0 && is_apart(block))
            .map(|(block, _)| block)
            .collect();
        if !free.is_empty() {
            return Ok(free);
        }
        let claimed = self.claimed(pool)?;
        let all = blocks(ranges.given(), length).take(MOST_BLOCKS);
        let free = all.filter(|block| !claimed.contains(block) && is_apart(block));
        Ok(free.collect())
    }

    /// Gives a block back. It is no error if the node doesn't have it any more.
    ///
    /// # Errors
    ///
    /// Those of the engine: then it is unknown whether the block was given back.
    pub(super) fn give_back(&mut self, block: &Block, pool: &str) -> Result<(), Error> {
        let key = Key::Block(pool.to_owned(), block.cidr);
        self.engine.commit(&Change {
            conditions: vec![
                self.identity.is_current(),
                Condition::Value(key.clone(), block.owner.to_value()),
            ],
            delete: vec![key],
            ..Change::default()
        })?;
        Ok(())
    }
}

fn no_block(pool: &str, definition: &Definition) -> Error {
    try_again(format!(
        "pool {pool} ({}) has no block left: nodes have claimed all blocks of length {}",
        definition.pool.ranges,
        definition.block.unwrap_or_default()
    ))
}
