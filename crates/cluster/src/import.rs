//! Import of pool definitions: all of them are written, or none.
//!
//! A definition is refused if held addresses or blocks would lose their range, gateway or block
//! size. All definitions are written in one change, on the condition that nothing has changed
//! since the verification.

mod taken_away;

use std::fmt;

use cni::{Error, NetworkName, code};
use ipam::Disjoint;
use serde::Serialize;

use crate::contents::{DefinedPool, claimed_blocks, held_addresses};
use crate::restore::{is_import, is_reconciled, read_marks, refuse_marks};
use crate::{Change, Condition, DefinedPools, Definition, Engine, EngineError, Group, Key};
pub(crate) use taken_away::keeps_block;
use taken_away::{Redefined, taken_away};

/// Most times that an import reads the pools again, because they were changed meanwhile.
const MOST_TRIES: u32 = 20;

/// Most addresses and blocks that a refusal lists.
const NAMED: usize = 20;

/// Outcome of the import of a pool. The names are documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Imported {
    /// The pool is new.
    Created,
    /// The pool had another definition.
    Replaced,
    /// The pool had this definition.
    Unchanged,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The outcome of each pool.
pub type Outcomes = Vec<(NetworkName, Imported)>;

/// Writes these definitions. Returns the outcome of each pool. Existing, different definitions are
/// replaced only with `replaces`.
///
/// # Errors
///
/// Definitions that overlap, or that take something away from held addresses or blocks; code 11
/// before all nodes have run `ipamctl reconcile`, or if others keep changing the pools; those of
/// the engine. After an error, nothing is written, except perhaps if an answer was lost.
pub fn import(
    engine: &mut dyn Engine,
    pools: &[DefinedPool],
    replaces: bool,
) -> Result<Outcomes, Error> {
    // Outcomes of an attempt whose answer was lost, and which may have been made.
    let mut sent = None;
    for _ in 0..MOST_TRIES {
        let look = Look(DefinedPools::read(engine)?);
        let (outcomes, redefined) = look.compare(engine, pools, replaces)?;
        if redefined.is_empty() {
            // An interrupted import has written them, and its mark still exists.
            let marks = engine.read(&[read_marks()])?;
            if let Some(marks) = marks.first().filter(|marks| is_import(marks)) {
                refuse_marks(engine, Some(marks))?;
            }
            return Ok(sent.unwrap_or(outcomes));
        }
        refuse_what_is_held(engine, &redefined)?;
        let outcome = engine
            .commit(&look.change(pools, &redefined))
            .map_err(explained)?;
        if outcome.done {
            return Ok(outcomes);
        }
        sent = outcome.resent.then_some(outcomes);
    }
    Err(try_again(
        "nothing is written: pools, addresses or blocks were changed by others all the time; try again",
    ))
}

/// Refuses pools that overlap with each other or with other existing ones: an address would be
/// given twice.
///
/// # Errors
///
/// Names the two pools that overlap.
pub fn refuse_overlaps(imported: &[DefinedPool], existing: &[DefinedPool]) -> Result<(), Error> {
    let is_replaced = |name: &NetworkName| imported.iter().any(|pool| pool.name == *name);
    let staying = existing.iter().filter(|pool| !is_replaced(&pool.name));
    let all: Vec<&DefinedPool> = staying.chain(imported).collect();
    let ranges = |pool: &DefinedPool| pool.definition.pool.ranges.to_string();
    let mut disjoint = Disjoint::default();
    for (i, pool) in all.iter().enumerate() {
        if let Err(earlier) = disjoint.add(&pool.definition.pool.ranges, i) {
            let earlier = all[earlier];
            return Err(Error::config(format!(
                "pool {} ({}) overlaps with pool {} ({})",
                pool.name,
                ranges(pool),
                earlier.name,
                ranges(earlier)
            )));
        }
    }
    Ok(())
}

/// The pools of the engine when the import looked.
struct Look(DefinedPools);

impl Look {
    /// The outcomes, and the definitions to write.
    fn compare<'a>(
        &'a self,
        engine: &dyn Engine,
        imported: &'a [DefinedPool],
        replaces: bool,
    ) -> Result<(Outcomes, Vec<Redefined<'a>>), Error> {
        let existing = &self.0.pools;
        refuse_overlaps(imported, existing)?;
        let (mut outcomes, mut redefined) = (Vec::new(), Vec::new());
        for pool in imported {
            let known = existing.iter().find(|known| known.name == pool.name);
            let outcome = match known {
                None => Imported::Created,
                Some(known) if known.is_same(pool) => Imported::Unchanged,
                Some(_) if replaces => Imported::Replaced,
                Some(_) => {
                    return Err(Error::config(format!(
                        "pool {}: {} has another definition of it; --replace puts this one in its place",
                        pool.name,
                        engine.name()
                    )));
                }
            };
            outcomes.push((pool.name.clone(), outcome));
            if outcome != Imported::Unchanged {
                let old: Option<&Definition> = known.map(|known| &known.definition);
                redefined.push(Redefined {
                    name: &pool.name,
                    old,
                    new: &pool.definition,
                });
            }
        }
        Ok((outcomes, redefined))
    }

    /// Writes the definitions on the condition that no pool has changed since, and that no address
    /// or block of a redefined pool was added.
    fn change(&self, imported: &[DefinedPool], redefined: &[Redefined<'_>]) -> Change {
        let mut change = Change {
            conditions: vec![self.0.are_unchanged(), is_reconciled()],
            ..Change::default()
        };
        for pool in redefined.iter().filter(|pool| pool.old.is_some()) {
            let name = Some(pool.name.to_string());
            for group in [Group::Addresses(name.clone()), Group::Blocks(name)] {
                let condition = Condition::NoneCreatedSince(group, self.0.revision);
                change.conditions.push(condition);
            }
        }
        for pool in imported {
            if redefined
                .iter()
                .any(|redefined| *redefined.name == pool.name)
            {
                let key = Key::Pool(pool.name.to_string());
                change.write.push((key, pool.value.clone()));
            }
        }
        change
    }
}

/// Refuses definitions that take something away from held addresses and blocks.
fn refuse_what_is_held(engine: &mut dyn Engine, redefined: &[Redefined<'_>]) -> Result<(), Error> {
    // Until all nodes are reconciled, it is unknown what is held.
    let marks = engine.read(&[read_marks()])?;
    refuse_marks(engine, marks.first())
        .map_err(|error| try_again(format!("nothing is written: {}", error.msg)))?;
    let addresses = held_addresses(engine, true)?;
    let blocks = claimed_blocks(engine)?;
    let taken = taken_away(redefined, &addresses, &blocks);
    if taken.is_empty() {
        return Ok(());
    }
    let mut named = taken[..taken.len().min(NAMED)].join("\n  ");
    if taken.len() > NAMED {
        named += &format!("\n  … and {} more", taken.len() - NAMED);
    }
    Err(Error::config(format!(
        "nothing is written, since addresses or blocks are held:\n  {named}"
    )))
}

/// Adds to a failed write whether the pools are written.
fn explained(error: EngineError) -> Error {
    let meaning = if error.may_have_changed() {
        "it isn't known whether the pools are written, all of them or none: run the same import again"
    } else {
        "nothing is written"
    };
    let mut error = Error::from(error);
    error.msg = format!("{meaning}: {}", error.msg);
    error
}

/// Code 11 with this reason.
fn try_again(reason: impl Into<String>) -> Error {
    Error::new(code::TRY_AGAIN_LATER, reason)
}
