//! Releases the holdings of a node that doesn't come back. A person decides this, or a program
//! that a person has set up.

use cni::Error;

use crate::address::{Entry, Released, entries, release};
use crate::contents::{ClaimedBlock, claimed_blocks};
use crate::restore::{clear_mark, mark};
use crate::try_again;
use crate::{Change, Condition, Engine, EngineError, Found, Holding, Key, Read, Stored};

/// The holdings of a node, as they were read.
#[derive(Debug)]
pub struct NodeHoldings {
    node: String,
    /// The addresses that its attachments hold.
    pub addresses: Vec<Entry>,
    /// The blocks that it has claimed.
    pub blocks: Vec<ClaimedBlock>,
    /// Blocks with foreign content. Their owner is unknown, so they are kept.
    pub foreign_blocks: Vec<ClaimedBlock>,
    /// The node's registration.
    pub registration: Option<Stored>,
    mark: Option<Stored>,
}

/// The released holdings of a node.
#[derive(Debug, Default)]
pub struct Forgotten {
    /// Number of addresses.
    pub addresses: usize,
    /// The blocks.
    pub blocks: Vec<ClaimedBlock>,
    /// Blocks that were changed, or whose node has registered again. They are kept.
    pub changed_blocks: Vec<ClaimedBlock>,
    /// Number of addresses that the node has reserved meanwhile, so it is not gone.
    pub reserved_meanwhile: usize,
}

impl NodeHoldings {
    /// Reads the holdings of a node.
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

    /// Releases the holdings that are still exactly as they were read.
    ///
    /// # Errors
    ///
    /// Code 11 if the node has registered again; those of the engine.
    pub fn release(self, engine: &mut dyn Engine) -> Result<Forgotten, Error> {
        // First the registration: without it, the node can claim nothing more.
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
        // The node's mark is not needed any more: its holdings are released.
        if let Some(mark) = &self.mark {
            clear_mark(engine, mark)?;
        }
        forgotten.reserved_meanwhile = entries(engine, Holding::of_node(&self.node))?.len();
        Ok(forgotten)
    }
}

/// Deletes a node's registration, if it is exactly this one. Without it, the node can claim
/// nothing. A running node registers again; its later claims are not touched.
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

/// Releases a block of a node without a registration; false if the claim has changed since it was
/// read. A later claim may belong to a running node.
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
    // If the change was sent again after a lost answer, the first attempt may have deleted the
    // block.
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
