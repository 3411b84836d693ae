//! Blocks in etcd: claims them, and gives them back.

use std::collections::BTreeSet;

use cluster::{BlockOwner, Cluster, Definition, blocks, some_blocks};
use cluster_client::{Identity, LatestState, is_reconciled, read_marks, refuse_marks};
use cni::{Call, Error, code};
use etcd::{Client, Compare, Op, Range, Txn, TxnAnswer};
use ipam::IpNet;
use node_blocks::{Block, Files, Local};

/// Blocks that one request looks at.
pub(crate) const AT_ONCE: usize = 60;

/// Blocks in a page of a whole pool.
pub(crate) const PAGE: u32 = 2000;

/// Most blocks of a pool that are all looked at; of a larger one, some at random.
const MOST_BLOCKS: usize = 1 << 16;

/// Claims after which an ADD gives up: each has lost a block to another node.
const MOST_TRIES: u32 = 50;

/// This node in etcd.
pub(crate) struct Claims<'a> {
    pub(crate) client: Client<'a>,
    pub(crate) cluster: &'a Cluster,
    pub(crate) identity: Identity<'a>,
    latest_state: LatestState,
    /// The last change of the definition that was read last.
    defined_at: i64,
}

impl<'a> Claims<'a> {
    /// Registers the node, if it isn't registered in this boot yet.
    ///
    /// # Errors
    ///
    /// Those of etcd; code 7 if the node's name is another machine's.
    pub(crate) fn new(
        cluster: &'a Cluster,
        call: &Call<'a>,
        mut client: Client<'a>,
    ) -> Result<Self, Error> {
        Ok(Self {
            // Before etcd is asked: other processes see later states meanwhile.
            latest_state: LatestState::open(cluster)?,
            identity: Identity::of(cluster, call, &mut client)?,
            client,
            cluster,
            defined_at: 0,
        })
    }

    /// The incarnation in which blocks are claimed and compared.
    pub(crate) fn incarnation(&self) -> &str {
        self.identity.incarnation()
    }

    /// Reads the definition of a pool that is given in blocks.
    ///
    /// # Errors
    ///
    /// Code 7, naming etcd's key, if there is none, or no valid one, or one without blocks.
    pub(crate) fn definition(&mut self, pool: &str) -> Result<Definition, Error> {
        let key = self.cluster.keys.pool(pool);
        let definition = self
            .any_definition(pool)?
            .ok_or_else(|| Error::config(format!("etcd has no pool {pool:?}: {key} is missing")))?;
        if definition.block.is_none() {
            return Err(Error::config(format!(
                "{key}.block is missing: it must be the length of a block's prefix, such as 26"
            )));
        }
        Ok(definition)
    }

    /// Reads a pool's definition; `None` if etcd has none.
    ///
    /// # Errors
    ///
    /// Those of etcd; code 7, naming etcd's key, for an invalid definition.
    pub(crate) fn any_definition(&mut self, pool: &str) -> Result<Option<Definition>, Error> {
        let key = self.cluster.keys.pool(pool);
        let Some(found) = self.client.get(key.as_str())? else {
            return Ok(None);
        };
        self.defined_at = found.mod_revision;
        Definition::parse(&key, &found.value)
            .map(Some)
            .map_err(|why| Error::config(why.to_string()))
    }

    /// Verifies that the node may read the pools' definitions.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub(crate) fn can_read_pools(&mut self) -> Result<(), Error> {
        let pools = Range::prefix(self.cluster.keys.pools());
        self.client.range(&pools.limit(1).keys_only())?;
        Ok(())
    }

    /// Claims a free block of a pool: the wanted one, or any. It is noted in the node's file
    /// before and after.
    ///
    /// # Errors
    ///
    /// Those of etcd; code 11 if no block is free; code 111 if the wanted one is another
    /// node's; code 7 if addresses of the pool are given one by one.
    pub(crate) fn claim(
        &mut self,
        files: &Files,
        local: &mut Local,
        pool: &str,
        definition: &Definition,
        wanted: Option<IpNet>,
    ) -> Result<(), Error> {
        let length = definition.block.unwrap_or_default();
        let others = self.of_other_lengths(local, pool, length)?;
        if let Some(block) = wanted
            && let Some(other) = others.iter().find(|it| overlap(**it, block))
        {
            return Err(Error::new(
                code::REQUESTED_TAKEN,
                format!(
                    "block {block} of pool {pool}, with the requested address, overlaps with {other}, which was claimed before block was changed to {length}"
                ),
            ));
        }
        let mut free = match wanted {
            Some(block) => vec![block],
            None => self.free_blocks(pool, definition, &others)?,
        };
        for _ in 0..MOST_TRIES {
            if free.is_empty() && wanted.is_none() {
                free = self.free_blocks(pool, definition, &others)?;
            }
            if free.is_empty() {
                return Err(no_block(pool, definition));
            }
            let cidr = free.swap_remove(fastrand::usize(..free.len()));
            let owner = BlockOwner::new(&self.cluster.node);
            // Noted first: if this process is killed, the next one finds out.
            local.claiming = Some(Block::new(cidr, owner));
            files.write(local)?;
            let other = self.try_claim(local, pool)?;
            files.write(local)?;
            match (other, wanted) {
                (None, _) => return Ok(()),
                (Some(owner), Some(block)) => {
                    return Err(Error::new(
                        code::REQUESTED_TAKEN,
                        format!(
                            "block {block} of pool {pool}, with the requested address, is {owner}"
                        ),
                    ));
                }
                (Some(_), None) => {}
            }
        }
        Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!("other nodes took {MOST_TRIES} blocks of pool {pool} before this one got one"),
        ))
    }

    /// Claims the block that the node's file has as being claimed; returns its owner, for
    /// people, if it is another's.
    pub(crate) fn try_claim(
        &mut self,
        local: &mut Local,
        pool: &str,
    ) -> Result<Option<String>, Error> {
        let Some(claiming) = local.claiming.clone() else {
            return Ok(None);
        };
        self.refuse_older()?;
        let txn = self.transaction(pool, &claiming);
        // If no answer comes, the note stays, and `verify` finds out.
        let answer = self.client.txn(&txn)?;
        local.claiming = None;
        let now = answer.ranges().nth(1).and_then(|it| it.kvs.first());
        if answer.succeeded || now.is_some_and(|it| it.value == claiming.owner.to_value()) {
            let cidr = claiming.cidr;
            tracing::debug!(%cidr, pool, "claimed a block");
            self.latest_state.remember(&self.client);
            local.blocks.retain(|it| it.cidr != cidr);
            local.blocks.push(claiming);
            return Ok(None);
        }
        self.reason(pool, &answer).map(Some)
    }

    /// Verifies that etcd would let this node claim a block, up to the point of claiming.
    ///
    /// # Errors
    ///
    /// Those of [`Self::claim`].
    pub(crate) fn could_claim(&mut self, pool: &str, cidr: IpNet) -> Result<(), Error> {
        self.refuse_older()?;
        let block = Block::new(cidr, BlockOwner::new(&self.cluster.node));
        let mut txn = self.transaction(pool, &block);
        txn.when
            .push(Compare::never(self.cluster.keys.block(pool, cidr)));
        let answer = self.client.txn(&txn)?;
        self.reason(pool, &answer).map(|_| ())
    }

    /// Refuses an etcd that is older than this node has seen it.
    fn refuse_older(&mut self) -> Result<(), Error> {
        let (cluster, client) = (self.cluster, &mut self.client);
        self.latest_state.refuse_older(cluster, client)
    }

    /// The transaction that claims a block: etcd was not restored, this machine has the node's name, nobody has the
    /// block, and the definition is the one that was read.
    fn transaction(&self, pool: &str, block: &Block) -> Txn {
        let keys = &self.cluster.keys;
        let key = keys.block(pool, block.cidr);
        let definition = keys.pool(pool);
        let addresses = keys.addresses(pool);
        Txn {
            when: vec![
                self.identity.is_current(),
                Compare::is_missing(key.as_str()),
                // With another definition, the block might overlap with one of another length.
                Compare::mod_revision(definition.as_str(), self.defined_at),
                Compare::none_starts_with(addresses.as_str()),
                is_reconciled(keys),
            ],
            then: vec![Op::put(key.as_str(), block.owner.to_value())],
            otherwise: vec![
                Op::get(self.identity.read()),
                Op::get(Range::key(key)),
                Op::get(Range::key(definition).keys_only()),
                Op::get(Range::prefix(addresses).keys_only().limit(1)),
                Op::get(read_marks(keys)),
            ],
        }
    }

    /// The reason why a block was not claimed: its owner, for people, or an error.
    fn reason(&mut self, pool: &str, answer: &TxnAnswer) -> Result<String, Error> {
        let definition = self.cluster.keys.pool(pool);
        let mut found = answer.ranges().map(|it| it.kvs.first());
        let mut next = || found.next().flatten();
        let (registered, now, defined, address) = (next(), next(), next(), next());
        let registered = registered.map(|it| it.value.as_slice());
        if !self.identity.verify(&mut self.client, registered)? {
            return Err(Error::new(
                code::TRY_AGAIN_LATER,
                format!(
                    "etcd did not know node {} any more; it has registered again",
                    self.cluster.node
                ),
            ));
        }
        refuse_marks(&self.cluster.keys, answer.ranges().nth(4))?;
        if let Some(address) = address {
            let address = String::from_utf8_lossy(&address.key);
            return Err(Error::config(format!(
                "{definition}.block: addresses of this pool are given one by one, such as {address}: it can't be given in blocks before these are released"
            )));
        }
        if defined.is_none_or(|it| it.mod_revision != self.defined_at) {
            return Err(Error::new(
                code::TRY_AGAIN_LATER,
                format!("{definition} was changed just now"),
            ));
        }
        Ok(
            match now.map(|it| (BlockOwner::parse(&it.value), &it.value)) {
                Some((Some(owner), _)) => format!("node {}'s", owner.node),
                Some((None, value)) => {
                    let value = String::from_utf8_lossy(value);
                    format!("held by content that isn't ours: {}", cni::Excerpt(&value))
                }
                None => "free by now; the next ADD claims it".to_owned(),
            },
        )
    }

    /// Verifies that the node could claim a block now.
    ///
    /// # Errors
    ///
    /// Those of [`Self::claim`].
    pub(crate) fn has_free_block(
        &mut self,
        pool: &str,
        definition: &Definition,
    ) -> Result<(), Error> {
        match self.free_blocks(pool, definition, &[])?.first() {
            Some(free) => self.could_claim(pool, *free),
            None => Err(no_block(pool, definition)),
        }
    }

    /// The blocks of another length than this, which were claimed before the definition was
    /// changed. Once there is none, there will be none until the next change: each claim
    /// compares the definition. So the pool's blocks are read once for each.
    pub(crate) fn of_other_lengths(
        &mut self,
        local: &mut Local,
        pool: &str,
        length: u8,
    ) -> Result<Vec<IpNet>, Error> {
        if local.one_length_since == Some(self.defined_at) {
            return Ok(Vec::new());
        }
        let keys = &self.cluster.keys;
        let mut others = Vec::new();
        self.client
            .pages::<Error>(&keys.blocks(pool), PAGE, true, |_, page| {
                let blocks = page.iter().filter_map(|it| keys.parse_block(pool, &it.key));
                others.extend(blocks.filter(|it| it.prefix_len() != length));
                Ok(())
            })?;
        if others.is_empty() {
            local.one_length_since = Some(self.defined_at);
        }
        Ok(others)
    }

    /// Some free blocks that overlap with none of `others`; empty if there is none.
    fn free_blocks(
        &mut self,
        pool: &str,
        definition: &Definition,
        others: &[IpNet],
    ) -> Result<Vec<IpNet>, Error> {
        let keys = &self.cluster.keys;
        let ranges = &definition.pool.ranges;
        let length = definition.block.unwrap_or_default();
        let is_apart = |block: &IpNet| others.iter().all(|it| !overlap(*it, *block));
        let some = some_blocks(ranges, length, AT_ONCE);
        let reads = some
            .iter()
            .map(|it| Range::key(keys.block(pool, *it)).count_only());
        let answer = self.client.txn(&Txn::read(reads))?;
        let both = some.iter().zip(answer.ranges());
        let free: Vec<IpNet> = both
            .filter(|(block, it)| it.count == 0 && is_apart(block))
            .map(|(it, _)| *it)
            .collect();
        if !free.is_empty() {
            return Ok(free);
        }
        let mut claimed = BTreeSet::new();
        self.client
            .pages::<Error>(&keys.blocks(pool), PAGE, true, |_, page| {
                claimed.extend(page.iter().filter_map(|it| keys.parse_block(pool, &it.key)));
                Ok(())
            })?;
        let all = blocks(ranges.given(), length).take(MOST_BLOCKS);
        let free = all.filter(|it| !claimed.contains(it) && is_apart(it));
        Ok(free.collect())
    }

    /// Gives a block back. One that isn't the node's any more is no error.
    ///
    /// # Errors
    ///
    /// Those of etcd: the block may then be given back, or not.
    pub(crate) fn give_back(&mut self, block: &Block, pool: &str) -> Result<(), Error> {
        let key = self.cluster.keys.block(pool, block.cidr);
        self.client.txn(&Txn {
            when: vec![
                self.identity.is_current(),
                Compare::value(key.as_str(), block.owner.to_value()),
            ],
            then: vec![Op::delete(key)],
            otherwise: Vec::new(),
        })?;
        Ok(())
    }
}

pub(crate) fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

fn no_block(pool: &str, definition: &Definition) -> Error {
    Error::new(
        code::TRY_AGAIN_LATER,
        format!(
            "pool {pool} ({}) has no block left: nodes have claimed all blocks of length {}",
            definition.pool.ranges,
            definition.block.unwrap_or_default()
        ),
    )
}
