//! Verifies conditions on objects that a change doesn't touch.

use std::collections::HashMap;

use cluster::{Condition, EngineError, Group, Holding, Key, Stored};

use super::Engine;
use crate::objects::stored;
use crate::view::Verified;
use crate::{Item, Resource};

/// The pools of a change.
struct Pools<'c> {
    /// The names of those whose definition is a condition.
    defined: Vec<&'c str>,
    /// Those that the conditions have read, by name.
    read: HashMap<String, Option<Item>>,
}

impl<'c> Pools<'c> {
    fn of(conditions: &[&'c Condition]) -> Self {
        let defined = |condition: &&'c Condition| match *condition {
            Condition::Value(Key::Pool(pool), _) | Condition::Revision(Key::Pool(pool), _) => {
                Some(pool.as_str())
            }
            _ => None,
        };
        Self {
            defined: conditions.iter().filter_map(defined).collect(),
            read: HashMap::new(),
        }
    }
}

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
        let mut pools = Pools::of(conditions);
        // While a restore goes on, nodes claim their addresses again: what is verified of a pool
        // meanwhile doesn't stay true. The registration shows which restore has ended last.
        let mut conditions = conditions.to_vec();
        conditions.sort_by_key(|condition| match condition {
            Condition::Empty(Group::Marks) => 0,
            Condition::Value(Key::Node(_), _) | Condition::Revision(Key::Node(_), _) => 1,
            _ => 2,
        });
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
        pools: &mut Pools<'_>,
    ) -> Result<bool, EngineError> {
        let mut found = |key: &Key| match key {
            Key::Pool(pool) => {
                let item = self.pool(pool, pools)?;
                if let Some(item) = item {
                    self.refuse_overlaps_of(item)?;
                }
                Ok(item.map(|item| stored(Resource::Pool, item)))
            }
            Key::Node(node) if *node == self.node => {
                let item = match self.registration.take() {
                    Some(item) => Some(item),
                    None => self.client.get(Resource::IpamNode, node)?,
                };
                self.note_last_restore(item.as_ref());
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
            Condition::Empty(Group::Marks) => !self.is_stopped(pools)?,
            Condition::Empty(Group::Held(holding)) => self.holds_no_other(holding, own)?,
            Condition::Empty(Group::Blocks(Some(pool))) => self.has_no_block(pool, pools)?,
            Condition::Empty(group) => self.group(group, false)?.is_empty(),
            Condition::NoneChangedSince(Group::Pools, revision) => self.no_pool_changed(*revision)?,
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
        pools: &'p mut Pools<'_>,
    ) -> Result<Option<&'p Item>, EngineError> {
        if !pools.read.contains_key(name) {
            let item = self.client.get(Resource::Pool, name)?;
            pools.read.insert(name.to_owned(), item);
        }
        Ok(pools.read[name].as_ref())
    }

    /// True if nothing new may be given. A restore is noted in all pools, so one pool shows it.
    fn is_stopped(&mut self, pools: &mut Pools<'_>) -> Result<bool, EngineError> {
        if let Some(name) = pools.defined.first().copied()
            && let Some(pool) = self.pool(name, pools)?
        {
            return self.is_stopped_by(pool);
        }
        self.is_restored()
    }

    /// True if no pool's spec was changed after this revision, or after the pools were listed.
    fn no_pool_changed(&mut self, revision: i64) -> Result<bool, EngineError> {
        let pools = self.labelled(Resource::Pool, None, false)?;
        Ok(pools.iter().all(|pool| {
            pool.revision <= revision || self.listed_pools.get(&pool.name) == Some(&pool.spec_id())
        }))
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
    fn has_no_block(&mut self, pool: &str, pools: &mut Pools<'_>) -> Result<bool, EngineError> {
        let is_without = |engine: &mut Self| {
            Ok(engine
                .of_pool(Resource::Block, Some(pool), false)?
                .is_empty())
        };
        match self.pool(pool, pools)? {
            Some(item) if item.spec["block"].is_null() => {
                let spec = item.spec_id();
                self.verify_once(Verified::WithoutBlocks, (pool, &spec), is_without)
            }
            // A pool with `block`, or a deleted pool whose blocks may still exist.
            _ => is_without(self),
        }
    }

    /// Verifies a property of a pool with this spec, unless a call of this node has done so since
    /// the last restore.
    pub(super) fn verify_once(
        &mut self,
        what: Verified,
        (pool, spec): (&str, &str),
        mut verify: impl FnMut(&mut Self) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        let spec = match what {
            Verified::BeforeRestores => spec.to_owned(),
            Verified::WithoutBlocks | Verified::Apart => {
                format!("{spec} {}", self.last_restore()?)
            }
        };
        self.beside_view(|engine, view, time| {
            view.verify(what, (pool, &spec), time, || verify(engine))
        })
    }
}
