//! Compares the blocks in the node's file with the engine's.

use cni::Error;

use super::claim::{AT_ONCE, Claims};
use super::pool_file::{Block, BlockFiles, PoolFile, overlap};
use crate::restore::{read_marks, refuse_marks};
use crate::try_again;
use crate::value::BlockOwner;
use crate::{Definition, Found, Group, Key, Read};

/// Most comparisons of one call. Between two, a person has released the node's holdings.
const MOST_TRIES: u32 = 5;

/// State of a block of the node's file in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InEngine {
    /// This node has it.
    Ours,
    /// The engine doesn't have it.
    Missing,
    /// Another node has it, or it was claimed again.
    Others,
}

impl Claims<'_> {
    /// Compares the node's blocks with the engine's, and notes the incarnation of the comparison.
    /// A block of another node is removed from the file. A block that the engine has lost, for
    /// example in a restore, is claimed again if possible, since containers may use its addresses.
    /// A block whose claim had no answer is added if the engine has it.
    ///
    /// # Errors
    ///
    /// Those of the engine; code 7 if another machine has the node's name.
    pub(super) fn compare(
        &mut self,
        files: &BlockFiles,
        file: &mut PoolFile,
        definition: Option<&Definition>,
    ) -> Result<(), Error> {
        let pool = file.pool().to_owned();
        let known = file.blocks.clone();
        let all: Vec<Block> = known.iter().cloned().chain(file.claiming.clone()).collect();
        let states = self.states(&all, &pool)?;
        let are_known = states[..known.len()].contains(&InEngine::Ours);
        if !known.is_empty() && !are_known && !file.is_of(self.node) {
            let name = self.engine.name();
            return Err(Error::config(format!(
                "ipam.{name}.endpoints: this {name} knows none of the {} blocks of pool {pool} that this node has of the one at {}: give each cluster an {name}.stateDir of its own",
                known.len(),
                file.endpoints.join(", ")
            )));
        }
        let mut compared = file.clone();
        (compared.claiming, compared.one_length_since) = (None, None);
        compared.blocks.clear();
        let mut lost = Vec::new();
        for (i, (block, state)) in all.iter().zip(&states).enumerate() {
            let is_listed = compared
                .blocks
                .iter()
                .any(|listed| listed.cidr == block.cidr);
            match state {
                InEngine::Ours if !is_listed => compared.blocks.push(block.clone()),
                InEngine::Missing if i < known.len() => {
                    // The block stays in the list until it is known whether it can be claimed
                    // again.
                    compared.blocks.push(block.clone());
                    lost.push(block);
                }
                InEngine::Others if i < known.len() => {
                    let cidr = block.cidr;
                    tracing::error!(%cidr, pool, "this block is not the node's any more, and isn't used");
                }
                _ => {}
            }
        }
        if !lost.is_empty() {
            // While there are marks, only `ipamctl reconcile` claims it again. It needs the block and
            // the definition in the file: those of the restored engine may be older.
            let marks = self.marks()?;
            refuse_marks(self.engine, marks.first())?;
        }
        for block in lost {
            self.claim_again(files, &mut compared, definition, block)?;
        }
        compared.set_verified(self.node, self.identity.incarnation());
        files.write(&compared)?;
        *file = compared;
        Ok(())
    }

    /// Verifies that the engine still has this machine's registration.
    ///
    /// # Errors
    ///
    /// As [`Self::compare`].
    pub(super) fn verify_name(&mut self) -> Result<(), Error> {
        self.states(&[], "").map(|_| ())
    }

    /// The state of each block in the engine, read while the node had this registration.
    fn states(&mut self, blocks: &[Block], pool: &str) -> Result<Vec<InEngine>, Error> {
        for _ in 0..MOST_TRIES {
            let mut states = Vec::with_capacity(blocks.len());
            let mut is_registered = true;
            // Without blocks, only the registration is read.
            let none = blocks.is_empty().then_some(blocks);
            for chunk in blocks.chunks(AT_ONCE).chain(none) {
                let read = |block: &Block| Read::Get(Key::Block(pool.to_owned(), block.cidr));
                let mut reads: Vec<Read> = chunk.iter().map(read).collect();
                reads.push(self.identity.read());
                let found = self.engine.read(&reads)?;
                let both = chunk.iter().zip(found.iter().map(Found::first));
                states.extend(both.map(|(block, found)| match found {
                    None => InEngine::Missing,
                    Some(found) if found.value == block.owner.to_value() => InEngine::Ours,
                    Some(_) => InEngine::Others,
                }));
                let registered = found.last().and_then(Found::first);
                is_registered &= self.identity.verify(self.engine, registered)?;
            }
            if is_registered {
                return Ok(states);
            }
        }
        Err(try_again(format!(
            "the registration of node {} changes all the time",
            self.node.name
        )))
    }

    /// Claims a block that the engine has lost.
    fn claim_again(
        &mut self,
        files: &BlockFiles,
        file: &mut PoolFile,
        definition: Option<&Definition>,
        block: &Block,
    ) -> Result<(), Error> {
        let (cidr, pool) = (block.cidr, file.pool().to_owned());
        let others = match definition.and_then(|definition| definition.block) {
            Some(length) if length == cidr.prefix_len() => self.of_other_lengths(file, length)?,
            _ => vec![cidr],
        };
        if others.iter().any(|other| overlap(*other, cidr)) {
            tracing::error!(%cidr, pool, "the engine has lost this block, and the pool's definition gives no such block; it isn't used");
            file.blocks.retain(|listed| listed.cidr != cidr);
            return Ok(());
        }
        file.claiming = Some(Block {
            owner: BlockOwner::new(&self.node.name),
            ..block.clone()
        });
        files.write(file)?;
        match self.try_claim(file)? {
            None => {
                tracing::warn!(%cidr, pool, "the engine had lost this block; it is the node's again");
            }
            Some(owner) => {
                tracing::error!(%cidr, pool, "the engine has lost this block, and it is {owner} by now; it isn't used");
                file.blocks.retain(|listed| listed.cidr != cidr);
            }
        }
        Ok(())
    }

    /// The blocks that this node has in the engine, but not in its file. None while there are
    /// marks: after a restore, such a block may be one that the node has given back since, and that
    /// another node uses. The node's `ipamctl reconcile` gives it back again.
    ///
    /// # Errors
    ///
    /// Those of the engine; code 11 if the engine was restored and nobody has written marks.
    pub(super) fn adoptable(&mut self, file: &PoolFile) -> Result<Vec<Block>, Error> {
        let group = Group::Blocks(Some(file.pool().to_owned()));
        let mut unlisted = Vec::new();
        for stored in self.engine.list(&group, true)? {
            if let (Key::Block(_, cidr), Some(owner)) =
                (stored.key, BlockOwner::parse(&stored.value))
                && owner.node == self.node.name
                && owner.to_value() == stored.value
                && file.blocks.iter().all(|listed| listed.cidr != cidr)
            {
                unlisted.push(Block::new(cidr, owner));
            }
        }
        // Read after the blocks: the list may be of the restored engine.
        if !unlisted.is_empty() && self.marks()?.iter().any(|marks| !marks.objects.is_empty()) {
            unlisted.clear();
        }
        Ok(unlisted)
    }

    /// The answer to [`read_marks`].
    fn marks(&mut self) -> Result<Vec<Found>, Error> {
        self.latest_state.refuse_older(self.node, self.engine)?;
        Ok(self.engine.read(&[read_marks()])?)
    }
}
