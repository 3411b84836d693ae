//! The trait of the engine that keeps a cluster's objects.
//!
//! This crate's rules need two guarantees from an engine: an object is created only if it doesn't
//! exist, and deleted only if it is exactly the object that was read. etcd makes each change in
//! one transaction. An engine without transactions creates the objects one by one, verifies the
//! other conditions before and after, and deletes the created objects if a condition doesn't hold.

use std::net::IpAddr;

use ipam::Interval;

use crate::{EngineError, Group, Key, TimeLimit};

/// Keeps pools, addresses, blocks and nodes.
pub trait Engine {
    /// Name of the engine in messages, such as `etcd`.
    fn name(&self) -> &'static str;

    /// Name of an object by which a person finds it in the engine.
    fn path(&self, key: &Key) -> String;

    /// Time limit of the following requests.
    fn time(&mut self) -> &mut TimeLimit;

    /// Cluster and revision in the engine's last answer; `None` before the first one.
    fn moment(&self) -> Option<Moment>;

    /// True if each cluster has one ID in [`Self::moment`]. Otherwise a cluster may have several,
    /// for example one for each of its URLs.
    fn has_one_id(&self) -> bool {
        true
    }

    /// Reads objects, with one answer for each read.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn read(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError>;

    /// True if each read is a separate request. Such an engine remembers which addresses this node
    /// has seen reserved, and answers hints from memory.
    fn remembers(&self) -> bool {
        false
    }

    /// Notes that this call requests an address of a pool; false if another call of this node
    /// does, or if the address seems to be reserved. An engine that doesn't remember returns true.
    fn asks_for(&mut self, _pool: &str, _ip: IpAddr) -> bool {
        true
    }

    /// The addresses of a pool that seem to be reserved, merged; `None` if the engine doesn't
    /// remember any, or was wrong too often.
    fn seen_reserved(&mut self, _pool: &str) -> Option<Vec<Interval>> {
        None
    }

    /// Reads one object.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn get(&mut self, key: Key) -> Result<Option<Stored>, EngineError> {
        let found = self.read(&[Read::Get(key)])?.into_iter().next();
        Ok(found.and_then(|found| found.objects.into_iter().next()))
    }

    /// Reads all objects of a group, in pages. Without `with_values`, the values are empty.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    fn list(&mut self, group: &Group, with_values: bool) -> Result<Vec<Stored>, EngineError>;

    /// Makes the whole change if all of its conditions hold, and nothing of it otherwise.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`]; [`EngineError::may_have_changed`] says whether the change may have been made.
    fn commit(&mut self, change: &Change) -> Result<Outcome, EngineError>;
}

/// A state of an engine: cluster and revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Moment {
    /// The cluster's ID.
    pub cluster: u64,
    /// The revision, which grows with each change.
    pub revision: i64,
}

/// One read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// An object with its value.
    Get(Key),
    /// Whether an object exists, in [`Found::number`]. This is a hint: an engine that would need a
    /// request may answer 0, because only a change decides.
    Exists(Key),
    /// The first `u32` objects of a group, without values.
    First(Group, u32),
    /// The `u32` objects of a group that were changed longest ago.
    Oldest(Group, u32),
    /// Number of objects in a group, in [`Found::number`].
    Count(Group),
}

/// The answer to a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The objects; empty for [`Read::Exists`] and [`Read::Count`].
    pub objects: Vec<Stored>,
    /// Number of objects, regardless of the limit.
    pub number: u64,
}

impl Found {
    /// The first object.
    pub fn first(&self) -> Option<&Stored> {
        self.objects.first()
    }
}

/// An object as the engine keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its key.
    pub key: Key,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision of its last change. Each revision belongs to one change.
    pub revision: i64,
}

/// A condition of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The object doesn't exist.
    Missing(Key),
    /// The object has this value.
    Value(Key, Vec<u8>),
    /// The object was last changed at this revision.
    Revision(Key, i64),
    /// The group has no object.
    Empty(Group),
    /// No object of the group was changed after this revision.
    NoneChangedSince(Group, i64),
    /// No object of the group was created after this revision.
    NoneCreatedSince(Group, i64),
}

/// A change of several objects. Either all of it is made, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The conditions. All must hold.
    pub conditions: Vec<Condition>,
    /// Objects to create or replace, with their new values. The conditions say which.
    pub write: Vec<(Key, Vec<u8>)>,
    /// Objects to delete.
    pub delete: Vec<Key>,
    /// Reads that are answered if a condition doesn't hold.
    pub otherwise: Vec<Read>,
    /// True if nothing is to be changed: the engine only says whether it would accept the change,
    /// and answers the reads.
    pub dry_run: bool,
}

/// Outcome of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// True if the change was made.
    pub done: bool,
    /// True if the change was sent more than once: the first attempt may have made it.
    pub resent: bool,
    /// Answers to [`Change::otherwise`], if the change was not made.
    pub found: Vec<Found>,
}
