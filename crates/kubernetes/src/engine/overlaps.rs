//! Refuses pools that overlap with others. People may define such pools, because the API server
//! doesn't compare them.

use cluster::contents::DefinedPool;
use cluster::import::refuse_overlaps;
use cluster::{Condition, EngineError, Key, Kind as Failure};
use ipam::Interval;

use super::Engine;
use crate::objects::path;
use crate::view::Verified;
use crate::{Item, Resource};

impl Engine<'_> {
    /// Verifies the pools in a change's conditions. A dry run verifies no other condition.
    pub(super) fn refuse_overlaps_in(
        &mut self,
        conditions: &[Condition],
    ) -> Result<(), EngineError> {
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

    /// Refuses a pool that overlaps with another one, or with a block of another one. Of two
    /// pools, the one that is verified later is compared with the other, so one verification of each
    /// spec is enough.
    pub(super) fn refuse_overlaps_of(&mut self, pool: &Item) -> Result<(), EngineError> {
        let spec = pool.spec_id();
        if self.view.is_verified(Verified::Apart, &pool.name, &spec) {
            return Ok(());
        }
        // A pool with an invalid definition gives no addresses, so it is skipped.
        let read = |item: &Item| {
            let path = path(Resource::Pool, &item.name);
            DefinedPool::read(&item.name, &path, item.spec.to_string().into_bytes()).ok()
        };
        let Some(own) = read(pool) else {
            return Ok(());
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
        self.view.note_verified(Verified::Apart, &pool.name, &spec);
        Ok(())
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
}
