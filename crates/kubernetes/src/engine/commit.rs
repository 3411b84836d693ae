//! Makes a change of several objects. The API can't make it in one step.
//!
//! Objects are created one by one; each creation fails if the object exists. Then the other
//! conditions are verified. If one doesn't hold, the created objects are deleted. Objects are
//! replaced or deleted only after the verification, and only if they are exactly the objects that
//! were read.

use cluster::{Change, Condition, EngineError, Key};

use super::explanation::Taken;
use super::guards::Own;
use super::{Engine, unable};
use crate::Item;
use crate::Resource;
use crate::names::object_of;
use crate::objects::{object, stored};
use crate::{Created, Deleted, Replaced};

/// Most times that an object is replaced again, because others have changed it meanwhile.
const MOST_TRIES: u32 = 10;

/// The expected state of an object that a change writes or deletes.
#[derive(Clone, Copy, Debug, Default)]
struct Expected<'c> {
    is_missing: bool,
    value: Option<&'c [u8]>,
    revision: Option<i64>,
}

impl<'c> Expected<'c> {
    fn of(change: &'c Change, key: &Key) -> Self {
        let mut expected = Self::default();
        for condition in &change.conditions {
            match condition {
                Condition::Missing(of) if is_same(of, key) => expected.is_missing = true,
                Condition::Value(of, value) if is_same(of, key) => expected.value = Some(value),
                Condition::Revision(of, revision) if is_same(of, key) => {
                    expected.revision = Some(*revision);
                }
                _ => {}
            }
        }
        expected
    }
}

/// True if both keys name one object: an address can be named by its holder as well.
fn is_same(a: &Key, b: &Key) -> bool {
    a == b || object_of(a).is_some_and(|a| object_of(b) == Some(a))
}

/// True for a condition on an object that the change itself writes or deletes.
fn is_own(change: &Change, condition: &Condition) -> bool {
    let (Condition::Missing(key) | Condition::Value(key, _) | Condition::Revision(key, _)) =
        condition
    else {
        return false;
    };
    let mut keys = change
        .write
        .iter()
        .map(|(key, _)| key)
        .chain(&change.delete);
    keys.any(|own| is_same(own, key))
}

impl Engine<'_> {
    /// Makes a change; false if one of its conditions doesn't hold.
    pub(super) fn make(&mut self, change: &Change) -> Result<bool, EngineError> {
        if !change.write.is_empty() {
            // The registration must be verified after the creations.
            self.registration = None;
        }
        let kinds = |kind: fn(&Key) -> bool| change.write.iter().any(|(key, _)| kind(key));
        if kinds(|key| matches!(key, Key::Pool(_))) {
            return self.import(change);
        }
        if kinds(|key| matches!(key, Key::Mark(_))) {
            return self.write_marks(change);
        }
        let conditions = change.conditions.iter();
        let guards: Vec<&Condition> = conditions
            .filter(|condition| !is_own(change, condition))
            .collect();
        let creates = |(key, _): &(Key, Vec<u8>)| {
            Expected::of(change, key).is_missing || matches!(key, Key::Held(_))
        };
        let only_creates = change.delete.is_empty() && change.write.iter().all(creates);
        if !only_creates && !self.hold(&guards, &Own::default())? {
            return Ok(false);
        }
        let mut created = Vec::new();
        let mut made = self.write(change, &mut created);
        if matches!(made, Ok(true)) && only_creates && !created.is_empty() {
            let own = Own::of(&created);
            made = self.hold(&guards, &own);
        }
        if !matches!(made, Ok(true)) {
            self.undo(&created)?;
            return made;
        }
        self.delete(change)
    }

    /// Verifies that the pools of a change overlap with no others, that its addresses could be
    /// noted, and that the API server would create its objects.
    pub(super) fn try_out(&mut self, change: &Change) -> Result<(), EngineError> {
        self.refuse_overlaps_in(&change.conditions)?;
        for (key, value) in &change.write {
            if let Key::Held(held) = key {
                self.note(held)?;
                self.forget(Some(held));
            }
            if let (Some((kind, _)), Key::Address(..) | Key::Block(..)) = (object_of(key), key) {
                let object = self.new_object(key, value)?;
                let tried = self.client.create(kind, &object, true)?;
                if let (Created::Exists, Key::Address(pool, _)) = (tried, key) {
                    // The view shows a taken address as free: it is replaced, so that another
                    // address is chosen.
                    self.addresses(pool)?;
                }
            }
        }
        Ok(())
    }

    /// Creates and replaces the objects of a change; false if an object isn't in the expected
    /// state.
    fn write(&mut self, change: &Change, created: &mut Vec<Item>) -> Result<bool, EngineError> {
        for (key, value) in &change.write {
            let done = match key {
                // The object of the address contains its holder.
                Key::Held(held) => self.note(held).map(|()| true)?,
                _ => {
                    let expected = Expected::of(change, key);
                    match expected.is_missing {
                        true => self.create(key, value, change, created)?,
                        false => self.put(key, value, expected)?,
                    }
                }
            };
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Creates an object; false if it exists.
    fn create(
        &mut self,
        key: &Key,
        value: &[u8],
        change: &Change,
        created: &mut Vec<Item>,
    ) -> Result<bool, EngineError> {
        let Some((kind, name)) = object_of(key) else {
            return Err(unable(format!("{key:?} is no object of ours")));
        };
        let object = self.new_object(key, value)?;
        let of_key = |(other, _): &&(Key, Vec<u8>)| other != key && is_same(other, key);
        let held = match change.write.iter().find(of_key) {
            Some((Key::Held(held), _)) => Some(held),
            _ => None,
        };
        let address = match key {
            Key::Address(pool, ip) => Some((pool.clone(), *ip)),
            _ => None,
        };
        if let Some((pool, ip)) = &address {
            let is_noted = self.asked_for.remove(&(pool.clone(), *ip));
            if !is_noted {
                self.view.note(pool, *ip, true);
            }
        }
        if let Some(held) = held {
            self.note(held)?;
        }
        let mut exists = None;
        let outcome = match self.client.create(kind, &object, false) {
            Err(error) if error.kind == cluster::Kind::Lost => {
                // The answer was lost. The object shows whether it was created.
                match self.client.get(kind, &name) {
                    Ok(Some(item)) if item.spec == object["spec"] => Ok(Created::Done(item.into())),
                    _ => Err(error),
                }
            }
            Ok(Created::Exists) => match self.client.get(kind, &name)? {
                // An earlier execution of the request has created it: for example, a load balancer
                // sent it twice.
                Some(item) if item.spec == object["spec"] => Ok(Created::Done(item.into())),
                found => {
                    exists = found;
                    Ok(Created::Exists)
                }
            },
            other => other,
        };
        match outcome {
            Ok(Created::Done(item)) => {
                self.saw(item.revision)?;
                created.push(*item);
                Ok(true)
            }
            Ok(Created::Exists) => {
                if address.is_some() {
                    self.misses += 1;
                    // Another call for this attachment may have noted and created it.
                    if exists.as_ref().and_then(crate::objects::held).as_ref() != held {
                        self.forget(held);
                    }
                    let stored = exists.map(|item| stored(kind, &item));
                    self.taken = Some(Taken::exists(key, stored));
                }
                if let Key::Block(pool, _) = key
                    && let Some(blocks) = self.blocks.get_mut(pool)
                {
                    blocks.insert(key.clone());
                }
                Ok(false)
            }
            Err(error) => {
                if !error.may_have_changed() {
                    self.forget(held);
                    if let Some((pool, ip)) = address {
                        self.view.note(&pool, ip, false);
                    }
                }
                Err(error)
            }
        }
    }

    /// Replaces an object in its expected state, or creates one without an expected state; false
    /// if the object is in another state.
    fn put(
        &mut self,
        key: &Key,
        value: &[u8],
        expected: Expected<'_>,
    ) -> Result<bool, EngineError> {
        let mut object = self.new_object(key, value)?;
        let is_expected = expected.value.is_some() || expected.revision.is_some();
        for _ in 0..MOST_TRIES {
            let Some((kind, name)) = object_of(key) else {
                return Ok(false);
            };
            let replaced = match self.object(key)? {
                None if is_expected => return Ok(false),
                None => match self.client.create(kind, &object, false)? {
                    Created::Done(item) => Replaced::Done(item),
                    Created::Exists => Replaced::Changed,
                },
                Some((item, stored)) => {
                    let is_same = expected.value.is_none_or(|value| value == stored.value)
                        && expected
                            .revision
                            .is_none_or(|revision| revision == stored.revision);
                    if !is_same {
                        return Ok(false);
                    }
                    // The spec of these objects is immutable: a new holder needs a new object.
                    if matches!(kind, Resource::Address | Resource::Block) {
                        let (uid, revision) = (Some(item.uid.as_str()), Some(item.revision));
                        if self.client.delete(kind, &name, uid, revision)? != Deleted::Done {
                            return Ok(false);
                        }
                        let created = self.client.create(kind, &object, false)?;
                        return Ok(matches!(created, Created::Done(_)));
                    }
                    item.keep_metadata_in(&mut object);
                    self.client.replace(kind, &object, false)?
                }
            };
            match replaced {
                Replaced::Done(item) => return self.saw(item.revision).map(|()| true),
                _ if is_expected => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Deletes the objects of a change, each only in its expected state; false if one is in
    /// another state.
    fn delete(&mut self, change: &Change) -> Result<bool, EngineError> {
        let mut marks = false;
        for key in &change.delete {
            if let Key::Held(held) = key {
                // The address itself is deleted by its own key.
                if !change.delete.contains(&held.address()) {
                    self.forget(Some(held));
                }
                continue;
            }
            if let Key::Mark(node) = key {
                marks = true;
                if node == self.node {
                    self.end_restore_here()?;
                }
            }
            if !self.delete_one(key, Expected::of(change, key))? {
                return Ok(false);
            }
            let held = |other: &&Key| is_same(other, key) && matches!(other, Key::Held(_));
            if let Some(Key::Held(held)) = change.delete.iter().find(held) {
                self.forget(Some(held));
            }
        }
        if marks {
            self.sweep_or_leave()?;
        }
        Ok(true)
    }

    fn delete_one(&mut self, key: &Key, expected: Expected<'_>) -> Result<bool, EngineError> {
        let Some((kind, name)) = object_of(key) else {
            return Ok(false);
        };
        let (uid, revision) = match expected.revision {
            Some(revision) => (None, revision),
            None => match self.object(key)? {
                Some((item, stored))
                    if expected.value.is_none_or(|value| value == stored.value) =>
                {
                    (Some(item.uid), item.revision)
                }
                // The change has no expectation about it.
                None if expected.value.is_none() => return Ok(true),
                _ => return Ok(false),
            },
        };
        let mut is_resent = false;
        let deleted = loop {
            match self
                .client
                .delete(kind, &name, uid.as_deref(), Some(revision))
            {
                // The UID and the revision are given, so the deletion can safely be sent again.
                Err(error) if error.kind == cluster::Kind::Lost && !is_resent => is_resent = true,
                other => break other?,
            }
        };
        let is_gone = deleted == Deleted::Done || (is_resent && deleted == Deleted::Missing);
        if let (true, Key::Address(pool, ip)) = (is_gone, key) {
            self.view.note(pool, *ip, false);
        }
        Ok(is_gone)
    }

    /// Deletes the created objects of a change whose conditions don't hold.
    fn undo(&mut self, created: &[Item]) -> Result<(), EngineError> {
        let limit = self.client.time;
        self.client.time.finish();
        let undone = created.iter().try_for_each(|item| {
            self.client
                .delete(item.resource.clone(), &item.name, Some(&item.uid), None)?;
            if let Some(held) = crate::objects::held(item) {
                self.view.note(held.pool.as_str(), held.ip, false);
                self.forget(Some(&held));
            }
            Ok(())
        });
        self.client.time = limit;
        undone.map_err(|error: EngineError| {
            let names: Vec<&str> = created.iter().map(|item| item.name.as_str()).collect();
            let msg = format!(
                "{} stays for now, and was not given: {}",
                names.join(", "),
                error.msg
            );
            EngineError::new(cluster::Kind::Lost, msg)
        })
    }

    fn new_object(&self, key: &Key, value: &[u8]) -> Result<serde_json::Value, EngineError> {
        let object = object(key, value, &self.pod);
        object.ok_or_else(|| unable(format!("{key:?} can't have this value")))
    }
}
