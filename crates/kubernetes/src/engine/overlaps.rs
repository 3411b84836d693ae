//! Refuses pools that would give an address twice: pools that overlap with others, and those with
//! addresses that are still held of pools which were deleted or changed. People may define such
//! pools, because the API server compares no objects with each other.

use cluster::contents::DefinedPool;
use cluster::import::refuse_overlaps;
use cluster::{Condition, EngineError, Key, Kind as Failure};
use ipam::{Interval, Range};

use super::Engine;
use crate::names::{key_of, prefixes};
use crate::objects::{label, path};
use crate::view::Verified;
use crate::{Item, Resource};

impl Engine<'_> {
    /// Verifies the pools in a change's conditions. A dry run verifies no other condition.
    pub(super) fn refuse_overlaps_in(
        &mut self,
        conditions: &[Condition],
    ) -> Result<(), EngineError> {
        // Nothing is given then, and nodes are claiming their addresses again.
        if self.is_restored()? {
            return Ok(());
        }
        for condition in conditions {
            if let Condition::Value(Key::Pool(pool), _) | Condition::Revision(Key::Pool(pool), _) =
                condition
                && let Some(item) = self.client.get(Resource::Pool, pool)?
            {
                self.refuse_overlaps_of(&item)?;
            }
        }
        Ok(())
    }

    /// Refuses a pool that overlaps with another one, with a block of another one, or with an
    /// address that is held of another one. Of two pools, the one that is verified later is
    /// compared with the other, so one verification of each spec is enough.
    pub(super) fn refuse_overlaps_of(&mut self, pool: &Item) -> Result<(), EngineError> {
        let spec = pool.spec_id();
        let compare = |engine: &mut Self| engine.compare(pool);
        let compared = self.verify_once(Verified::Apart, (&pool.name, &spec), compare);
        compared.map(|_| ())
    }

    /// Compares a pool with all that others have; false if its definition is invalid: it gives no
    /// addresses.
    fn compare(&mut self, pool: &Item) -> Result<bool, EngineError> {
        let read = |item: &Item| {
            let path = path(Resource::Pool, &item.name);
            DefinedPool::read(&item.name, &path, item.spec.to_string().into_bytes()).ok()
        };
        let Some(own) = read(pool) else {
            return Ok(false);
        };
        let own = [own];
        let all = self.client.list(Resource::Pool, None, false)?.items;
        for other in all.iter().filter(|other| other.uid != pool.uid) {
            let overlap = read(other).and_then(|other| refuse_overlaps(&own, &[other]).err());
            if let Some(error) = overlap {
                let msg = format!(
                    "{}: an address would be given twice; nothing is given of {} before one of them is changed or deleted",
                    error.msg, pool.name
                );
                return Err(EngineError::new(Failure::Settings, msg));
            }
        }
        self.refuse_blocks_in(&own[0])?;
        self.refuse_held_in(&own[0])?;
        Ok(true)
    }

    /// Refuses a pool with addresses of another pool's blocks. A node gives the addresses of its
    /// blocks even if their pool was deleted or changed.
    fn refuse_blocks_in(&mut self, pool: &DefinedPool) -> Result<(), EngineError> {
        let ranges = pool.definition.pool.ranges.ranges();
        for block in self.of_pool(Resource::Block, None, false)? {
            if let Key::Block(of, cidr) = &block.key
                && of != pool.name.as_str()
                && let interval = Interval::from(*cidr)
                && ranges.iter().any(|own| own.addresses().overlaps(interval))
            {
                let msg = format!(
                    "pool {} overlaps with {}, which a node has: an address would be given twice; nothing is given of {} before the node has given it back",
                    pool.name,
                    cluster::Engine::path(self, &block.key),
                    pool.name
                );
                return Err(EngineError::new(Failure::Settings, msg));
            }
        }
        Ok(())
    }

    /// Refuses a pool with addresses that are held of another pool, which gave them before it was
    /// deleted or changed.
    fn refuse_held_in(&mut self, pool: &DefinedPool) -> Result<(), EngineError> {
        let ranges = &pool.definition.pool.ranges;
        let (others, prefix) = (format!("{}!={}", label("pool"), pool.name), label("prefix"));
        let selectors = match prefixes(ranges.ranges().iter().map(Range::addresses)) {
            // Without the policy of labels, an address may lack the label.
            Some(prefixes) => {
                let prefixes = Vec::from_iter(prefixes).join(",");
                vec![
                    format!("{others},{prefix} in ({prefixes})"),
                    format!("{others},!{prefix}"),
                ]
            }
            None => vec![others],
        };
        let mut items = Vec::new();
        for selector in selectors {
            let list = self.client.list(Resource::Address, Some(&selector), true)?;
            items.extend(list.items);
        }
        for item in &items {
            if let Some(key @ Key::Address(_, ip)) = &key_of(Resource::Address, &item.name)
                && ranges.contains(*ip)
            {
                let node = item.labels.get(&label("node"));
                let msg = format!(
                    "pool {} overlaps with {}, which {} holds: an address would be given twice; nothing is given of {} before that address is released",
                    pool.name,
                    cluster::Engine::path(self, key),
                    node.map_or("a node", String::as_str),
                    pool.name
                );
                return Err(EngineError::new(Failure::Settings, msg));
            }
        }
        Ok(())
    }
}
