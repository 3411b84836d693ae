//! Marks of the nodes that have to run `ipamctl reconcile` after a restore of the engine.

use std::collections::BTreeSet;

use cni::NetworkName;

use crate::value::BlockOwner;
use crate::{Change, Condition, Engine, EngineError, Group, Holding, Key, Stored};

/// Most marks that one change writes.
const AT_ONCE: usize = 100;

/// The mark that exists while the others are written. It names no node.
const BEGINNING: &str = ".begin";

/// Marks these nodes, and all nodes that the engine has objects of. Returns their names. Without
/// any node, nothing is marked.
///
/// # Errors
///
/// Those of the engine.
pub fn mark_nodes(
    engine: &mut dyn Engine,
    named: &[String],
) -> Result<BTreeSet<String>, EngineError> {
    let beginning = Key::Mark(BEGINNING.to_owned());
    // Written first: if this process is killed, this mark stays.
    write(engine, vec![(beginning.clone(), Vec::new())])?;
    let mut nodes = known_nodes(engine)?;
    nodes.extend(named.iter().cloned());
    let all: Vec<&String> = nodes.iter().collect();
    for chunk in all.chunks(AT_ONCE) {
        let marks = chunk
            .iter()
            .map(|node| (Key::Mark((*node).clone()), Vec::new()));
        write(engine, marks.collect())?;
    }
    delete(engine, Vec::new(), beginning)?;
    Ok(nodes)
}

fn write(engine: &mut dyn Engine, write: Vec<(Key, Vec<u8>)>) -> Result<(), EngineError> {
    let change = Change {
        write,
        ..Change::default()
    };
    engine.commit(&change).map(|_| ())
}

fn delete(
    engine: &mut dyn Engine,
    conditions: Vec<Condition>,
    mark: Key,
) -> Result<bool, EngineError> {
    let outcome = engine.commit(&Change {
        conditions,
        delete: vec![mark],
        ..Change::default()
    })?;
    Ok(outcome.done || outcome.resent)
}

/// The nodes that the engine has objects of.
fn known_nodes(engine: &mut dyn Engine) -> Result<BTreeSet<String>, EngineError> {
    let mut nodes = BTreeSet::new();
    for block in engine.list(&Group::Blocks(None), true)? {
        nodes.extend(BlockOwner::parse(&block.value).map(|owner| owner.node));
    }
    for registration in engine.list(&Group::Nodes, false)? {
        if let Key::Node(node) = registration.key {
            nodes.insert(node);
        }
    }
    for held in engine.list(&Group::Held(Holding::default()), false)? {
        if let Key::Held(held) = held.key {
            nodes.insert(held.node);
        }
    }
    nodes.retain(|node| node.parse::<NetworkName>().is_ok());
    Ok(nodes)
}

/// The nodes that have not run `ipamctl reconcile`.
///
/// # Errors
///
/// Those of the engine.
pub fn marked(engine: &mut dyn Engine) -> Result<Vec<String>, EngineError> {
    let marks = engine.list(&Group::Marks, false)?.into_iter();
    Ok(marks
        .map(|stored| match stored.key {
            Key::Mark(node) => node,
            _ => "?".to_owned(),
        })
        .collect())
}

/// The mark of a node.
///
/// # Errors
///
/// Those of the engine.
pub fn mark(engine: &mut dyn Engine, node: &str) -> Result<Option<Stored>, EngineError> {
    engine.get(Key::Mark(node.to_owned()))
}

/// Deletes a mark, if it is exactly this one; false if it was written again meanwhile.
///
/// # Errors
///
/// Those of the engine.
pub fn clear_mark(engine: &mut dyn Engine, mark: &Stored) -> Result<bool, EngineError> {
    let is_same = Condition::Revision(mark.key.clone(), mark.revision);
    delete(engine, vec![is_same], mark.key.clone())
}
