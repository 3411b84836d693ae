//! Room for an ADD in the node's blocks, by the files of the node.

use std::net::IpAddr;
use std::time::Duration;

use cni::Error;
use ipam::IpNet;

use super::BlockNode;
use super::asked::AskedPool;
use super::layout::block_of;
use super::pool_file::{BootTime, PoolFile};
use crate::Definition;

/// After a failed claim of a block that isn't needed yet, the engine isn't asked for this time.
const PAUSE: Duration = Duration::from_secs(10);

/// Upper bound of [`low`].
const MOST_LOW: u128 = 64;

/// The block that a pool needs on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// No block.
    Nothing,
    /// Another block, soon.
    Soon,
    /// A block now: this one, or any.
    Now(Option<IpNet>),
}

impl BlockNode<'_> {
    /// The block that an ADD needs, by the allocator's files.
    ///
    /// # Errors
    ///
    /// Code 5 if the allocator's directory can't be read; code 7 for a requested address outside
    /// of the pool.
    pub(super) fn need(
        &self,
        pool: &AskedPool,
        file: &PoolFile,
        definition: &Definition,
    ) -> Result<Need, Error> {
        if let Some(ip) = pool.requested {
            let (ip, block) = requested_block(pool, ip, definition)?;
            // The node's block may have the length of a former definition.
            return Ok(match file.used().any(|used| used.contains(&ip)) {
                true => Need::Nothing,
                false => Need::Now(Some(block)),
            });
        }
        let free = pool.free(definition, file)?;
        if free == 0 {
            return Ok(Need::Now(None));
        }
        if free >= low(definition) {
            return Ok(Need::Nothing);
        }
        let now = BootTime::now(self.boot.as_deref());
        let failed = file.failed.as_ref().and_then(|failed| failed.until(&now));
        Ok(match failed {
            Some(passed) if passed < PAUSE => Need::Nothing,
            _ => Need::Soon,
        })
    }
}

/// The requested address of the pool's family, and its block.
fn requested_block(
    pool: &AskedPool,
    ip: IpAddr,
    definition: &Definition,
) -> Result<(IpAddr, IpNet), Error> {
    let ranges = &definition.pool.ranges;
    let ip = ranges.in_family(ip);
    let block = ranges
        .contains(ip)
        .then(|| block_of(ip, definition.block.unwrap_or_default()));
    let block = block.flatten().ok_or_else(|| {
        Error::config(format!(
            "requested-ip: {ip} is not in pool {} ({ranges})",
            pool.name
        ))
    })?;
    Ok((ip, block))
}

/// With fewer free addresses than this, the blocks count as nearly full: a quarter of a block.
pub(super) fn low(definition: &Definition) -> u128 {
    let longest = definition.pool.ranges.ranges()[0].subnet().max_prefix_len();
    let bits = u32::from(longest - definition.block.unwrap_or(longest).min(longest));
    let size = 1u128.checked_shl(bits).unwrap_or(u128::MAX);
    (size / 4).clamp(1, MOST_LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_nearly_full_with_less_than_a_quarter_of_a_block_free() {
        for (definition, addresses) in [
            (r#"{"subnet":"10.0.0.0/16","block":26}"#, 16),
            (r#"{"subnet":"10.0.0.0/16","block":27}"#, 8),
            (r#"{"subnet":"10.0.0.0/16","block":30}"#, 1),
            (r#"{"subnet":"10.0.0.0/16","block":24}"#, 64),
            (r#"{"subnet":"10.0.0.0/16","block":16}"#, 64),
            (r#"{"subnet":"10.0.0.0/16"}"#, 1),
            (r#"{"subnet":"fd00::/64","block":122}"#, 16),
            (r#"{"subnet":"fd00::/64","block":64}"#, 64),
            (r#"{"subnet":"::/0","block":0}"#, 64),
        ] {
            let parsed = Definition::parse("pool", definition.as_bytes()).unwrap();
            assert_eq!(low(&parsed), addresses, "{definition}");
        }
    }
}
