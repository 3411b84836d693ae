//! Verifies conditions on objects that a change doesn't touch.

use std::collections::HashMap;

use cluster::{Condition, EngineError, Group, Holding, Key, Stored};

use super::Engine;
use crate::objects::stored;
use crate::view::Verified;
use crate::{Item, Resource};

/// Pools that the conditions of a change have read, by name.
type Pools = HashMap<String, Option<Item>>;

/// The objects that the change itself has created.
#[derive(Debug, Default)]
pub(super) struct Own<'i> {
    names: Vec<&'i str>,
    /// The lowest revision of these objects.
    revision: Option<i64>,
}

impl<'i> Own<'i> {
    pub(super) fn of(created: &'i [Item]) -> Self {
        Self {
            names: created.iter().map(|item| item.name.as_str()).collect(),
            revision: created.iter().map(|item| item.revision).min(),
        }
    }
}

impl Engine<'_> {
    /// True if all of these conditions hold now.
    pub(super) fn hold(
        &mut self,
        conditions: &[&Condition],
        own: &Own<'_>,
    ) -> Result<bool, EngineError> {
        let mut pools = Pools::new();
        for condition in conditions {
            let holds = self.holds(condition, own, &mut pools)?;
            if !holds {
                tracing::debug!(?condition, "a condition doesn't hold");
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds(
        &mut self,
        condition: &Condition,
        own: &Own<'_>,
        pools: &mut Pools,
    ) -> Result<bool, EngineError> {
        let mut found = |key: &Key| match key {
            Key::Pool(pool) => {
                let item = self.pool(pool, pools)?.cloned();
                if let Some(item) = &item {
                    self.refuse_overlaps_of(item)?;
                }
                Ok(item.map(|item| stored(Resource::Pool, &item)))
            }
            Key::Node(node) if *node == self.node && self.registration.is_some() => {
                let item = self.registration.take();
                Ok(item.map(|item| stored(Resource::IpamNode, &item)))
            }
            _ => Ok(self.object(key)?.map(|(_, stored)| stored)),
        };
        Ok(match condition {
            Condition::Missing(key) => found(key)?.is_none(),
            Condition::Value(key, value) => {
                found(key)?.is_some_and(|stored: Stored| stored.value == *value)
            }
            Condition::Revision(key, revision) => {
                found(key)?.is_some_and(|stored: Stored| stored.revision == *revision)
            }
            Condition::Empty(Group::Marks) => !self.is_restored()?,
            Condition::Empty(Group::Held(holding)) => self.holds_no_other(holding, own)?,
            Condition::Empty(Group::Blocks(Some(pool))) => self.has_no_block(pool, pools)?,
            Condition::Empty(group) => self.group(group, false)?.is_empty(),
            Condition::NoneChangedSince(group, revision)
            // Addresses and blocks are never changed.
            | Condition::NoneCreatedSince(group, revision) => {
                let all = self.group(group, true)?;
                all.iter().all(|stored| stored.revision <= *revision)
            }
        })
    }

    /// The pool's object, read once for all conditions of a change.
    fn pool<'p>(
        &mut self,
        name: &str,
        pools: &'p mut Pools,
    ) -> Result<Option<&'p Item>, EngineError> {
        if !pools.contains_key(name) {
            let item = self.client.get(Resource::Pool, name)?;
            pools.insert(name.to_owned(), item);
        }
        Ok(pools[name].as_ref())
    }

    /// True if the attachment holds only the addresses that this change has created. Of two
    /// concurrent changes, the one that created its addresses first succeeds.
    fn holds_no_other(&mut self, holding: &Holding, own: &Own<'_>) -> Result<bool, EngineError> {
        let is_other = |stored: &Stored| own.revision.is_none_or(|own| stored.revision < own);
        let found = match self.indexed(holding, &own.names)? {
            Some(found) => found,
            None => self.holding(holding)?,
        };
        Ok(!found.iter().any(is_other))
    }

    /// True if no node has a block of the pool. A pool without `block` gets no new blocks, so this
    /// stays true until its spec changes.
    fn has_no_block(&mut self, pool: &str, pools: &mut Pools) -> Result<bool, EngineError> {
        let spec = match self.pool(pool, pools)? {
            Some(item) if item.spec["block"].is_null() => item.spec_id(),
            // A pool with `block`, or a deleted pool whose blocks may still exist.
            _ => return Ok(self.of_pool(Resource::Block, Some(pool), false)?.is_empty()),
        };
        if self.view.is_verified(Verified::WithoutBlocks, pool, &spec) {
            return Ok(true);
        }
        let is_without = self.of_pool(Resource::Block, Some(pool), false)?.is_empty();
        if is_without {
            self.view
                .note_verified(Verified::WithoutBlocks, pool, &spec);
        }
        Ok(is_without)
    }
}
