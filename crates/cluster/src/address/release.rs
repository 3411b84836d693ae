//! Releases the addresses of attachments: DEL, GC, and the rollback of an ADD.

use std::collections::HashSet;

use cni::{Attachment, Call, Error, ROLLBACK};

use crate::node::second_name::refuse_second_name;
use crate::restore::LatestState;
use crate::try_again;
use crate::{
    Change, Condition, Engine, EngineError, Found, Group, HeldKey, Holder, Holding, Identity, Key,
    Kind, Node, Read, Stored,
};

/// Entries that one change releases: each takes two conditions.
const AT_ONCE: usize = 60;

/// Most tries of a release. Between two tries, either the node was forgotten and has registered
/// again, or another process has changed the address's object.
const MOST_TRIES: u32 = 5;

/// An address that a node holds, as it was read from the engine.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The network, the attachment, the pool and the address.
    pub held: HeldKey,
    /// The value of the entry and of its address: a [`Holder`].
    pub value: Vec<u8>,
    /// Revision of its last change.
    pub revision: i64,
}

/// Outcome of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// All addresses are released; this is their number.
    All(usize),
    /// The condition doesn't hold, and the rest is not released. The engine has this registration
    /// of the node.
    Refused(Option<Stored>),
}

/// Releases the attachment's addresses in all pools, without a selector. The rollback of an ADD
/// releases only the addresses of that ADD: those of an earlier ADD may be in use.
///
/// # Errors
///
/// Those of the engine; code 7 if another machine has the node's name, or if this machine has
/// registered another name in this boot.
pub fn del(
    engine: &mut dyn Engine,
    node: &Node,
    attachment: &Attachment,
    call: &Call<'_>,
) -> Result<(), Error> {
    let holding = Holding::of_attachment(&node.name, call.config.name(), attachment);
    let undone = call.environment.text(ROLLBACK);
    let is_undone = |entry: &Entry| {
        let made_by = Holder::parse(&entry.value).and_then(|holder| holder.call);
        undone.is_empty() || made_by.as_ref() == Some(&undone)
    };
    release_chosen(engine, node, call, holding, is_undone)
}

/// Releases this node's addresses on this network whose attachments aren't valid any more. Refused
/// if another machine has the node's name: GC would release that machine's addresses.
///
/// # Errors
///
/// As [`del`].
pub fn gc(engine: &mut dyn Engine, node: &Node, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let valid: HashSet<Attachment> = config.valid_attachments()?.into_iter().collect();
    let holding = Holding::on_network(&node.name, config.name());
    let is_stale = |entry: &Entry| !valid.contains(&entry.held.attachment);
    release_chosen(engine, node, call, holding, is_stale)
}

/// Releases the addresses that `is_chosen` selects. If the node holds none of them, it needs no
/// registration, but this machine must not have registered another name in this boot, or with
/// another cluster.
fn release_chosen(
    engine: &mut dyn Engine,
    node: &Node,
    call: &Call<'_>,
    holding: Holding,
    is_chosen: impl Fn(&Entry) -> bool,
) -> Result<(), Error> {
    let mut found = entries(engine, holding)?;
    found.retain(is_chosen);
    if found.is_empty() {
        LatestState::open(node)?.refuse_another_cluster(node, engine)?;
        return refuse_second_name(node, call.environment);
    }
    let mut identity = Identity::of(node, call.environment, engine)?;
    let released = release_as(engine, &mut identity, &found)?;
    tracing::debug!(released, "released");
    Ok(())
}

/// Releases these entries as this node. Returns the number of addresses.
pub(super) fn release_as(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    entries: &[Entry],
) -> Result<usize, Error> {
    for _ in 0..MOST_TRIES {
        match release(engine, entries, &identity.is_current())? {
            Released::All(number) => return Ok(number),
            // Entries that are already released are not released again.
            Released::Refused(found) => identity.verify(engine, found.as_ref())?,
        };
    }
    Err(try_again("the node's registration changes all the time"))
}

/// The addresses that a node holds. Foreign objects are skipped.
///
/// # Errors
///
/// Those of the engine.
pub fn entries(engine: &mut dyn Engine, holding: Holding) -> Result<Vec<Entry>, Error> {
    let found = engine.list(&Group::Held(holding), true)?.into_iter();
    let entry = |stored: Stored| match stored.key {
        Key::Held(held) => Some(Entry {
            held,
            value: stored.value,
            revision: stored.revision,
        }),
        _ => None,
    };
    Ok(found.filter_map(entry).collect())
}

/// Releases these entries of one node while the condition holds: the node has this registration,
/// or none. The address is deleted only if it has the same value as its entry.
///
/// Each entry is compared with the value that was read. So a release that reaches the engine late,
/// or twice, never deletes the reservation of a later ADD.
///
/// # Errors
///
/// Those of the engine.
pub fn release(
    engine: &mut dyn Engine,
    entries: &[Entry],
    right: &Condition,
) -> Result<Released, EngineError> {
    let mut number = 0;
    for batch in entries.chunks(AT_ONCE) {
        let mut change = Change {
            conditions: vec![right.clone()],
            ..Change::default()
        };
        for entry in batch {
            entry.add_to(&mut change);
        }
        if engine.commit(&change)?.done {
            number += batch.len();
            continue;
        }
        // Either an entry has changed, or the change was made and its answer was lost.
        for entry in batch {
            match release_one(engine, entry, right)? {
                Released::All(released) => number += released,
                refused => return Ok(refused),
            }
        }
    }
    Ok(Released::All(number))
}

impl Entry {
    fn add_to(&self, change: &mut Change) {
        let (key, address) = (Key::Held(self.held.clone()), self.held.address());
        change.conditions.extend([
            Condition::Revision(key.clone(), self.revision),
            Condition::Value(address.clone(), self.value.clone()),
        ]);
        change.delete.extend([key, address]);
    }
}

/// Releases one entry. The address is kept if another attachment holds it now.
fn release_one(
    engine: &mut dyn Engine,
    entry: &Entry,
    right: &Condition,
) -> Result<Released, EngineError> {
    let mut entry = entry.clone();
    for _ in 0..MOST_TRIES {
        match try_release(engine, &entry, right)? {
            Tried::Released(released) => return Ok(released),
            Tried::SameHolder(revision) => entry.revision = revision,
        }
    }
    let path = engine.path(&entry.held.address());
    let msg = format!("{path} is changed by others all the time, and is not released");
    Err(EngineError::new(Kind::Unable, msg))
}

/// Outcome of one attempt.
enum Tried {
    Released(Released),
    /// The entry has the same value, but this revision: for example, an annotation or a label was
    /// changed.
    SameHolder(i64),
}

fn try_release(
    engine: &mut dyn Engine,
    entry: &Entry,
    right: &Condition,
) -> Result<Tried, EngineError> {
    let done = |released| Ok(Tried::Released(released));
    let (key, address) = (Key::Held(entry.held.clone()), entry.held.address());
    let registration = Read::Get(Key::Node(entry.held.node.clone()));
    let mut change = Change {
        conditions: vec![right.clone()],
        otherwise: vec![
            registration.clone(),
            Read::Get(key.clone()),
            Read::Get(address.clone()),
        ],
        ..Change::default()
    };
    entry.add_to(&mut change);
    let outcome = engine.commit(&change)?;
    if outcome.done {
        return done(Released::All(1));
    }
    let found: Vec<Option<&Stored>> = outcome.found.iter().map(Found::first).collect();
    let [registered, held, now] = found[..] else {
        return done(Released::Refused(None));
    };
    // Otherwise the entry is released, or belongs to a later ADD.
    let Some(held) = held.filter(|held| held.value == entry.value) else {
        return done(Released::All(0));
    };
    if held.revision != entry.revision {
        return Ok(Tried::SameHolder(held.revision));
    }
    if now.is_some_and(|now| now.value == entry.value) {
        return done(Released::Refused(registered.cloned()));
    }
    if let Some(now) = now {
        let (holder, key) = (Holder::describe(&now.value), engine.path(&address));
        tracing::warn!(key, "the address is {holder}, and stays so");
    }
    let outcome = engine.commit(&Change {
        conditions: vec![
            right.clone(),
            Condition::Revision(key.clone(), entry.revision),
        ],
        delete: vec![key],
        otherwise: vec![registration],
        ..Change::default()
    })?;
    done(match outcome.done {
        true => Released::All(0),
        false => Released::Refused(outcome.found.first().and_then(Found::first).cloned()),
    })
}
