//! Releases what a node holds that doesn't come back: a person has decided, or has set up
//! something that decides.

use cni::Error;

use crate::address::{Entry, Released, entries, release};
use crate::contents::{ClaimedBlock, claimed_blocks};
use crate::restore::{clear_mark, mark};
use crate::try_again;
use crate::{Change, Condition, Engine, EngineError, Found, Holding, Key, Read, Stored};

/// What the engine has of a node, as it was read.
#[derive(Debug)]
pub struct NodeHoldings {
    node: String,
    /// The addresses that its attachments hold.
    pub addresses: Vec<Entry>,
    /// The blocks that it has claimed.
    pub blocks: Vec<ClaimedBlock>,
    /// Blocks with foreign content: whose they are isn't known, and they are left alone.
    pub foreign_blocks: Vec<ClaimedBlock>,
    /// The node's registration.
    pub registration: Option<Stored>,
    mark: Option<Stored>,
}

/// What was released of a node.
#[derive(Debug, Default)]
pub struct Forgotten {
    /// Number of addresses.
    pub addresses: usize,
    /// The blocks.
    pub blocks: Vec<ClaimedBlock>,
    /// The blocks that were changed, or whose node has registered again meanwhile: they are left
    /// alone.
    pub changed_blocks: Vec<ClaimedBlock>,
    /// Number of addresses that the node has reserved meanwhile: it is not gone.
    pub reserved_meanwhile: usize,
}

impl NodeHoldings {
    /// Reads what the engine has of a node.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub fn read(engine: &mut dyn Engine, node: &str) -> Result<Self, Error> {
        let addresses = entries(engine, Holding::of_node(node))?;
        let blocks = claimed_blocks(engine)?.into_iter();
        let (blocks, foreign_blocks): (Vec<_>, Vec<_>) = blocks
            .filter(|block| block.owner.is_none() || block.node() == node)
            .partition(|block| block.owner.is_some());
        Ok(Self {
            node: node.to_owned(),
            addresses,
            blocks,
            foreign_blocks,
            registration: engine.get(Key::Node(node.to_owned()))?,
            mark: mark(engine, node)?,
        })
    }

    /// True if the engine has nothing of the node.
    pub fn is_empty(&self) -> bool {
        let is_unknown = self.registration.is_none() && self.mark.is_none();
        is_unknown && self.addresses.is_empty() && self.blocks.is_empty()
    }

    /// Releases all of it, if it is exactly what was read.
    ///
    /// # Errors
    ///
    /// Code 11 if the node has registered again; those of the engine.
    pub fn release(self, engine: &mut dyn Engine) -> Result<Forgotten, Error> {
        // First: without it, the node can claim nothing more.
        if let Some(registration) = &self.registration {
            forget_registration(engine, registration)?;
        }
        let is_forgotten = Condition::Missing(Key::Node(self.node.clone()));
        let Released::All(addresses) = release(engine, &self.addresses, &is_forgotten)? else {
            return Err(has_returned("nothing more is released"));
        };
        let mut forgotten = Forgotten {
            addresses,
            ..Forgotten::default()
        };
        for block in self.blocks {
            match forget_block(engine, &self.node, &block)? {
                true => forgotten.blocks.push(block),
                false => forgotten.changed_blocks.push(block),
            }
        }
        // What the node would have said lives there is released.
        if let Some(mark) = &self.mark {
            clear_mark(engine, mark)?;
        }
        forgotten.reserved_meanwhile = entries(engine, Holding::of_node(&self.node))?.len();
        Ok(forgotten)
    }
}

/// Deletes a node's registration, if it is exactly this one: without it, the node can claim
/// nothing more. A node that runs registers again, and what it claims then is its own.
fn forget_registration(engine: &mut dyn Engine, registration: &Stored) -> Result<(), Error> {
    let key = &registration.key;
    let outcome = engine.commit(&Change {
        conditions: vec![Condition::Revision(key.clone(), registration.revision)],
        delete: vec![key.clone()],
        otherwise: vec![Read::Get(key.clone())],
        ..Change::default()
    })?;
    match outcome.done || outcome.found.iter().all(|found| found.objects.is_empty()) {
        true => Ok(()),
        false => Err(has_returned("nothing is released")),
    }
}

/// Releases a block of a node that has no registration; false if the claim isn't the one that was
/// read any more. A later claim may be of a node that uses it.
fn forget_block(
    engine: &mut dyn Engine,
    node: &str,
    claimed: &ClaimedBlock,
) -> Result<bool, EngineError> {
    let key = Key::Block(claimed.pool.to_string(), claimed.block);
    let outcome = engine.commit(&Change {
        conditions: vec![
            Condition::Revision(key.clone(), claimed.revision),
            Condition::Missing(Key::Node(node.to_owned())),
        ],
        delete: vec![key.clone()],
        otherwise: vec![Read::Get(key)],
        ..Change::default()
    })?;
    // Sent again after its answer was lost, it finds its own work.
    let is_missing = outcome
        .found
        .iter()
        .all(|found: &Found| found.objects.is_empty());
    Ok(outcome.done || (outcome.resent && is_missing))
}

fn has_returned(rest: &str) -> Error {
    try_again(format!(
        "the node has registered again just now: it is not gone, and {rest}"
    ))
}
