//! Releases what a node holds that doesn't come back: a person has decided.

use cni::Error;
use ipam::IpNet;

use crate::address::{Entry, Released, release};
use crate::try_again;
use crate::{Change, Condition, Engine, EngineError, Found, Key, Read, Stored};

/// A block that a node has claimed, as it was read.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The pool.
    pub pool: String,
    /// The block.
    pub cidr: IpNet,
    /// Revision of the claim.
    pub revision: i64,
}

/// Deletes a node's registration, if it is exactly this one: without it, the node can claim
/// nothing more. A node that runs registers again, and what it claims then is its own.
///
/// # Errors
///
/// Code 11 if the node has registered again; those of the engine.
pub fn forget_registration(engine: &mut dyn Engine, registration: &Stored) -> Result<(), Error> {
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

/// Releases addresses of a node that has no registration; returns their number.
///
/// # Errors
///
/// As [`forget_registration`].
pub fn forget_addresses(
    engine: &mut dyn Engine,
    node: &str,
    held: &[Entry],
) -> Result<usize, Error> {
    let is_forgotten = Condition::Missing(Key::Node(node.to_owned()));
    match release(engine, held, &is_forgotten)? {
        Released::All(number) => Ok(number),
        Released::Refused(_) => Err(has_returned("nothing more is released")),
    }
}

/// Releases a block of a node that has no registration; false if the claim isn't the one that was
/// read any more. A later claim may be of a node that uses it.
///
/// # Errors
///
/// Those of the engine.
pub fn forget_block(
    engine: &mut dyn Engine,
    node: &str,
    claim: &Claim,
) -> Result<bool, EngineError> {
    let key = Key::Block(claim.pool.clone(), claim.cidr);
    let outcome = engine.commit(&Change {
        conditions: vec![
            Condition::Revision(key.clone(), claim.revision),
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
