//! The definitions of all pools at one time: which of them give an address or a block.

use std::net::IpAddr;

use cni::Error;
use ipam::{IpNet, Range};

use crate::block::layout::ranges_in;
use crate::contents::{DefinedPool, definitions};
use crate::import::keeps_block;
use crate::try_again;
use crate::{Condition, Definition, Engine, Group, Read};

/// What a person does about a refusal.
const REMEDY: &str = "define the pools as they were last, or delete the container";

/// The definitions of all pools.
#[derive(Debug)]
pub struct DefinedPools {
    /// Revision of the state that was read.
    pub(crate) revision: i64,
    pub(crate) pools: Vec<DefinedPool>,
}

impl DefinedPools {
    /// Reads the definitions.
    ///
    /// # Errors
    ///
    /// Code 7, naming the path, for an invalid definition; those of the engine.
    pub fn read(engine: &mut dyn Engine) -> Result<Self, Error> {
        // This read comes first: the revision of a later read is not older, so a change with the
        // condition notices everything that is changed after this revision.
        engine.read(&[Read::Count(Group::Pools)])?;
        let moment = engine.moment();
        let moment = moment.ok_or_else(|| try_again("the engine answers no revision"))?;
        let pools: Result<Vec<DefinedPool>, _> = definitions(engine)?.into_iter().collect();
        let name = engine.name();
        let unusable = |(path, reason)| Error::config(format!("{name}:{path}: {reason}"));
        Ok(Self {
            revision: moment.revision,
            pools: pools.map_err(unusable)?,
        })
    }

    /// The condition that no definition was written since.
    pub(crate) fn are_unchanged(&self) -> Condition {
        Condition::NoneChangedSince(Group::Pools, self.revision)
    }

    fn definition(&self, name: &str) -> Option<&Definition> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.name.as_str() == name)?;
        Some(&pool.definition)
    }

    /// The reason why an address can't be one of this pool. A pool without a definition may have
    /// its ranges in a conflist.
    pub(crate) fn refuse_address(&self, pool: &str, ip: IpAddr) -> Option<String> {
        let gives = |definition: &Definition| {
            let ranges = &definition.pool.ranges;
            let is_gateway = ranges
                .ranges()
                .iter()
                .map(Range::gateway)
                .any(|of| of == ip);
            definition.block.is_none() && ranges.contains(ip) && !is_gateway
        };
        if let Some(own) = self.definition(pool)
            && !gives(own)
        {
            return Some(format!(
                "pool {} doesn't give it: {REMEDY}",
                describe(pool, own)
            ));
        }
        let mut pools = self.pools.iter();
        let other = pools.find(|other| {
            other.name.as_str() != pool && other.definition.pool.ranges.contains(ip)
        })?;
        Some(format!(
            "pool {} has it: {REMEDY}",
            describe(other.name.as_str(), &other.definition)
        ))
    }

    /// The reason why this can't be a block of this pool, which has the definition `known` in the
    /// file of the node that uses the block.
    pub(crate) fn refuse_block(
        &self,
        pool: &str,
        block: IpNet,
        known: &Definition,
    ) -> Option<String> {
        let Some(own) = self.definition(pool) else {
            return Some(format!("pool {pool} isn't defined: {REMEDY}"));
        };
        let is_given = own.block == Some(block.prefix_len())
            && !ranges_in(&own.pool.ranges, block).is_empty()
            && keeps_block(known, own, block);
        (!is_given).then(|| {
            format!(
                "pool {} doesn't give this block, or gives it with another gateway or other exclusions: {REMEDY}",
                describe(pool, own)
            )
        })
    }
}

fn describe(name: &str, definition: &Definition) -> String {
    let ranges = &definition.pool.ranges;
    match definition.block {
        Some(length) => format!("{name} ({ranges}, in blocks of /{length})"),
        None => format!("{name} ({ranges})"),
    }
}
