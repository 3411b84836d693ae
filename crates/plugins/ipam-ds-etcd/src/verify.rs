//! Compares the blocks in the node's file with etcd's.

use cluster::{BlockOwner, Definition};
use cni::{Error, code};
use etcd::{Range, Txn};
use node_blocks::{Block, Files, Local};

use crate::claims::{AT_ONCE, Claims, PAGE, overlap};

/// Comparisons after which a call gives up: during each, a person has released what the node
/// holds.
const MOST_TRIES: u32 = 5;

/// A block of the node's file in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InEtcd {
    /// It is this node's.
    Ours,
    /// etcd doesn't have it.
    Missing,
    /// It is another node's, or was claimed again.
    Others,
}

impl Claims<'_> {
    /// Compares the node's blocks with etcd's, and notes the incarnation in which it has done
    /// so. A block that is another node's is dropped from the list. One that etcd has lost, such
    /// as by a restore, is claimed again if that is possible, since containers may use its
    /// addresses. One whose claim had no answer is added, if etcd has given it.
    ///
    /// # Errors
    ///
    /// Those of etcd; code 7 if the node's name is another machine's.
    pub(crate) fn verify(
        &mut self,
        files: &Files,
        local: &mut Local,
        pool: &str,
        definition: Option<&Definition>,
    ) -> Result<(), Error> {
        let known: Vec<Block> = local.blocks.clone();
        let claiming = local.claiming.clone();
        let all: Vec<Block> = known.iter().cloned().chain(claiming).collect();
        let states = self.states(&all, pool)?;
        let are_known = states[..known.len()].contains(&InEtcd::Ours);
        if !known.is_empty() && !are_known && !local.is_of(&self.cluster.settings) {
            return Err(Error::config(format!(
                "ipam.etcd.endpoints: this etcd knows none of the {} blocks of pool {pool} that this node has of the one at {}: give each cluster an etcd.stateDir of its own",
                known.len(),
                local.endpoints.join(", ")
            )));
        }
        let mut verified = local.clone();
        verified.claiming = None;
        verified.one_length_since = None;
        verified.blocks.clear();
        let mut lost = Vec::new();
        for (i, (block, state)) in all.iter().zip(&states).enumerate() {
            match state {
                InEtcd::Ours if verified.blocks.iter().all(|it| it.cidr != block.cidr) => {
                    verified.blocks.push(block.clone());
                }
                InEtcd::Missing if i < known.len() => {
                    // In the list until it is known whether it can be claimed again.
                    verified.blocks.push(block.clone());
                    lost.push(block);
                }
                InEtcd::Others if i < known.len() => {
                    let cidr = block.cidr;
                    tracing::error!(%cidr, pool, "this block is not the node's any more, and isn't used");
                }
                _ => {}
            }
        }
        for block in lost {
            self.claim_again(files, &mut verified, pool, definition, block)?;
        }
        verified.set_verified(&self.cluster.settings, self.incarnation());
        files.write(&verified)?;
        *local = verified;
        Ok(())
    }

    /// Verifies that etcd still has this machine's registration.
    ///
    /// # Errors
    ///
    /// As [`Self::verify`].
    pub(crate) fn verify_name(&mut self) -> Result<(), Error> {
        self.states(&[], "").map(|_| ())
    }

    /// The state of each block in etcd, read while the node's registration was this one.
    fn states(&mut self, blocks: &[Block], pool: &str) -> Result<Vec<InEtcd>, Error> {
        let keys = &self.cluster.keys;
        for _ in 0..MOST_TRIES {
            let mut states = Vec::with_capacity(blocks.len());
            let mut is_registered = true;
            // Without a block, the registration is read all the same.
            let chunks = blocks
                .chunks(AT_ONCE)
                .chain(blocks.is_empty().then_some(blocks));
            for chunk in chunks {
                let reads = chunk.iter().map(|it| Range::key(keys.block(pool, it.cidr)));
                let reads = reads.chain([self.identity.read()]);
                let answer = self.client.txn(&Txn::read(reads))?;
                let values = answer.ranges().map(|it| it.kvs.first());
                states.extend(chunk.iter().zip(values).map(|(block, value)| match value {
                    None => InEtcd::Missing,
                    Some(it) if it.value == block.owner.to_value() => InEtcd::Ours,
                    Some(_) => InEtcd::Others,
                }));
                let found = answer.ranges().last().and_then(|it| it.kvs.first());
                let found = found.map(|it| it.value.as_slice());
                is_registered &= self.identity.verify(&mut self.client, found)?;
            }
            if is_registered {
                return Ok(states);
            }
        }
        Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!(
                "the registration of node {} changes all the time",
                self.cluster.node
            ),
        ))
    }

    /// Claims a block that etcd has lost.
    fn claim_again(
        &mut self,
        files: &Files,
        local: &mut Local,
        pool: &str,
        definition: Option<&Definition>,
        block: &Block,
    ) -> Result<(), Error> {
        let cidr = block.cidr;
        let others = match definition.and_then(|it| it.block) {
            Some(length) if length == cidr.prefix_len() => {
                self.of_other_lengths(local, pool, length)?
            }
            _ => vec![cidr],
        };
        if others.iter().any(|it| overlap(*it, cidr)) {
            tracing::error!(%cidr, pool, "etcd has lost this block, and the pool's definition gives no such block; it isn't used");
            local.blocks.retain(|it| it.cidr != cidr);
            return Ok(());
        }
        local.claiming = Some(Block {
            owner: BlockOwner::new(&self.cluster.node),
            ..block.clone()
        });
        files.write(local)?;
        match self.try_claim(local, pool)? {
            None => tracing::warn!(%cidr, pool, "etcd had lost this block; it is the node's again"),
            Some(owner) => {
                tracing::error!(%cidr, pool, "etcd has lost this block, and it is {owner} by now; it isn't used");
                local.blocks.retain(|it| it.cidr != cidr);
            }
        }
        Ok(())
    }

    /// The blocks that etcd has as this node's and that the node's file doesn't list.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn unlisted(&mut self, local: &Local, pool: &str) -> Result<Vec<Block>, Error> {
        let keys = &self.cluster.keys;
        let node = &self.cluster.node;
        let mut unlisted = Vec::new();
        self.client
            .pages::<Error>(&keys.blocks(pool), PAGE, false, |_, page| {
                for kv in page {
                    let block = keys.parse_block(pool, &kv.key);
                    if let (Some(cidr), Some(owner)) = (block, BlockOwner::parse(&kv.value))
                        && owner.node == *node
                        && owner.to_value() == kv.value
                        && local.blocks.iter().all(|it| it.cidr != cidr)
                    {
                        unlisted.push(Block::new(cidr, owner));
                    }
                }
                Ok(())
            })?;
        Ok(unlisted)
    }
}
