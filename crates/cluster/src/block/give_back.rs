//! GC of blocks: compares the node's blocks with the engine's, and gives empty ones back.

use std::path::Path;
use std::time::Duration;

use cni::{Call, Error, Object};
use ipam::Pool;

use super::BlockNode;
use super::asked::reserved;
use super::claim::Claims;
use super::layout::ranges_in;
use super::pool_file::{Block, BootTime, PoolFile};
use super::room::low;
use crate::try_again;
use crate::{Definition, Engine, Node};

/// Default of `ipam.keepEmptyBlocks`.
const KEEP: Duration = Duration::from_secs(60 * 60);

/// Time for which a block is put aside before it is given back. Any ADD that still uses it has
/// ended by then.
const LEAVE: Duration = Duration::from_secs(10 * 60);

/// Gives back blocks that have been empty for a while, in all pools of which the node has blocks,
/// even if no network names the pool any more. `data_dir` is `ipam.dataDir`.
///
/// # Errors
///
/// Code 11, with the reason for each pool.
pub fn give_back(
    engine: &mut dyn Engine,
    node: &Node,
    data_dir: &Path,
    call: &Call<'_>,
) -> Result<(), Error> {
    let block_node = BlockNode::open(node, data_dir, call)?;
    let keep = keep(&call.config.ipam()?)?;
    let mut errors = Vec::new();
    for pool in block_node.files.pools()? {
        let left = engine.time().remaining();
        let done = block_node
            .files
            .locked(left, || collect(engine, &block_node, &pool, call, keep));
        match done {
            Ok(Some(())) => {}
            Ok(None) => errors.push(format!("{pool}: another process claims blocks")),
            Err(error) => errors.push(format!("{pool}: {}", error.msg)),
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(try_again(errors.join("; "))),
    }
}

fn keep(ipam: &Object) -> Result<Duration, Error> {
    let text: Option<String> = ipam.read("ipam", "keepEmptyBlocks")?;
    text.map_or(Ok(KEEP), |text| {
        humantime::parse_duration(&text).map_err(|_| {
            Error::config(format!(
                "ipam.keepEmptyBlocks: {text:?} is no time such as \"1h\""
            ))
        })
    })
}

fn collect(
    engine: &mut dyn Engine,
    node: &BlockNode<'_>,
    pool: &str,
    call: &Call<'_>,
    keep: Duration,
) -> Result<(), Error> {
    let Some(mut file) = node.files.read_of_any_folder(pool)? else {
        return Ok(());
    };
    let mut claims = Claims::new(engine, node.node, call)?;
    // If the definition is missing or has no `block`, each block is given back as soon as it is
    // empty.
    let definition = claims.any_definition(pool)?;
    let definition = definition.filter(|definition| definition.block.is_some());
    claims.compare(&node.files, &mut file, definition.as_ref())?;
    if let Some(definition) = &definition {
        file.definition = definition.object().clone();
    }
    for block in claims.adoptable(&file)? {
        tracing::warn!(block = %block.cidr, pool, "the engine has this block as the node's; it is used from now on");
        file.blocks.push(block);
    }
    node.files.write(&file)?;
    let now = BootTime::now(node.boot.as_deref());
    let gone = mark(definition.as_ref(), &mut file, &now, keep)?;
    node.files.write(&file)?;
    for block in gone {
        claims.give_back(&block, pool)?;
        // Removed after the engine's answer: if the answer is lost, the file must still have the
        // block.
        file.blocks.retain(|kept| *kept != block);
        node.files.write(&file)?;
        tracing::debug!(block = %block.cidr, pool, "gave a block back");
    }
    Ok(())
}

/// Marks the blocks that are empty or put aside. Returns those that are to be given back.
fn mark(
    definition: Option<&Definition>,
    file: &mut PoolFile,
    now: &BootTime,
    keep: Duration,
) -> Result<Vec<Block>, Error> {
    let reserved = reserved(file.data_dir(), file.pool())?;
    let used = |block: &Block| {
        let in_block = reserved.iter().filter(|ip| block.cidr.contains(*ip));
        in_block.count() as u128
    };
    let free = |block: &Block| capacity(definition, block).saturating_sub(used(block));
    let in_use = file
        .blocks
        .iter()
        .filter(|block| block.leaving_since.is_none());
    let mut left: u128 = in_use.map(free).sum();
    let holds_none = file.blocks.iter().all(|block| used(block) == 0);
    let mut gone = Vec::new();
    for block in &mut file.blocks {
        if used(block) > 0 {
            match definition {
                Some(_) => (block.empty_since, block.leaving_since) = (None, None),
                // No more addresses are given from it.
                None => _ = block.leaving_since.get_or_insert_with(|| now.clone()),
            }
            continue;
        }
        // After a boot, the time starts again.
        let passed = |since: &Option<BootTime>| since.as_ref().and_then(|since| since.until(now));
        if block.leaving_since.is_some() {
            match passed(&block.leaving_since) {
                Some(passed) if passed >= LEAVE.min(keep) => gone.push(block.clone()),
                Some(_) => {}
                None => block.leaving_since = Some(now.clone()),
            }
            continue;
        }
        let empty_for = passed(&block.empty_since);
        if empty_for.is_none() {
            block.empty_since = Some(now.clone());
        }
        let without = left.saturating_sub(free(block));
        let is_low = |definition| without < low(definition).saturating_mul(2);
        let is_spare = holds_none || !definition.is_some_and(is_low);
        let is_old = definition.is_none() || empty_for.unwrap_or_default() >= keep;
        if is_old && is_spare {
            left = without;
            block.leaving_since = Some(now.clone());
        }
    }
    Ok(gone)
}

/// Number of addresses in a block; 0 without a definition.
fn capacity(definition: Option<&Definition>, block: &Block) -> u128 {
    let ranges = definition.map(|found| ranges_in(&found.pool.ranges, block.cidr));
    let mut entry = Object::new();
    entry.set("ranges", &ranges.unwrap_or_default());
    Pool::read("a block", entry).map_or(0, |pool| pool.ranges.capacity())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::BlockOwner;
    use crate::block::BlockFiles;

    /// `n1` with the first `blocks` blocks of `blue`, which have 6, 8, 8 … addresses. `reserved`
    /// addresses are in use.
    struct Site {
        _folder: tempfile::TempDir,
        definition: Definition,
        file: PoolFile,
    }

    impl Site {
        fn new(blocks: u8, reserved: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let node = Node {
                name: "n1".to_owned(),
                is_named: true,
                state_dir: folder.path().join("state"),
                cache_dir: folder.path().join("cache"),
                prefix: String::new(),
                endpoints: Vec::new(),
                timeout: KEEP,
            };
            let data_dir = folder.path().join("data");
            fs::create_dir_all(data_dir.join("blue")).unwrap();
            for ip in reserved {
                fs::write(data_dir.join("blue").join(ip), "c\r\neth0\nnet\n").unwrap();
            }
            let json = br#"{"subnet":"10.0.0.0/24","block":29}"#;
            let definition = Definition::parse("pool", json).unwrap();
            let files = BlockFiles::open(&node, data_dir).unwrap();
            let mut file = PoolFile::new(&files, "blue", definition.object().clone());
            file.blocks = (0..blocks)
                .map(|block| {
                    let cidr = format!("10.0.0.{}/29", 8 * block).parse().unwrap();
                    Block::new(cidr, BlockOwner::new("n1"))
                })
                .collect();
            Self {
                _folder: folder,
                definition,
                file,
            }
        }

        /// Marks the blocks after this number of seconds. Returns the indexes of the blocks that
        /// are put aside, and the number of those to give back.
        fn mark(&mut self, is_defined: bool, seconds: u64, keep: Duration) -> (Vec<usize>, usize) {
            let mut now = serde_json::to_value(BootTime::now(None)).unwrap();
            now["seconds"] = (1_000_000 + seconds).into();
            let now: BootTime = serde_json::from_value(now).unwrap();
            let definition = is_defined.then_some(&self.definition);
            let gone = mark(definition, &mut self.file, &now, keep).unwrap();
            let blocks = self.file.blocks.iter().enumerate();
            let aside = blocks.filter(|(_, block)| block.leaving_since.is_some());
            (aside.map(|(i, _)| i).collect(), gone.len())
        }
    }

    #[test]
    fn blocks_that_stay_empty_are_put_aside_while_enough_addresses_remain_and_then_given_back() {
        // Low is 2, so 4 free addresses must remain.
        let mut site = Site::new(3, &["10.0.0.2", "10.0.0.3"]);
        assert_eq!(site.mark(true, 0, KEEP), (vec![], 0));
        assert_eq!(site.mark(true, 3_599, KEEP), (vec![], 0));
        // The first block has four free addresses.
        assert_eq!(site.mark(true, 3_600, KEEP), (vec![1, 2], 0));
        assert_eq!(site.mark(true, 4_199, KEEP), (vec![1, 2], 0));
        assert_eq!(site.mark(true, 4_200, KEEP), (vec![1, 2], 2));
    }

    #[test]
    fn an_empty_block_stays_while_the_others_are_nearly_full() {
        // The first block has three free addresses.
        let mut site = Site::new(3, &["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        assert_eq!(site.mark(true, 0, Duration::ZERO), (vec![1], 0));
        assert_eq!(site.mark(true, 0, Duration::ZERO), (vec![1], 1));
    }

    #[test]
    fn a_node_that_uses_no_address_keeps_no_block() {
        let mut site = Site::new(2, &[]);
        assert_eq!(site.mark(true, 0, Duration::ZERO), (vec![0, 1], 0));
        assert_eq!(site.mark(true, 0, Duration::ZERO), (vec![0, 1], 2));
    }

    #[test]
    fn a_block_that_is_used_again_is_not_put_aside_any_more() {
        let mut site = Site::new(2, &[]);
        site.mark(true, 0, Duration::ZERO);
        let data_dir = site.file.data_dir().join("blue");
        fs::write(data_dir.join("10.0.0.9"), "c\r\neth0\nnet\n").unwrap();
        assert_eq!(site.mark(true, 0, Duration::ZERO), (vec![0], 1));
    }

    #[test]
    fn without_a_definition_no_more_addresses_are_given_and_empty_blocks_go() {
        let mut site = Site::new(2, &["10.0.0.2"]);
        assert_eq!(site.mark(false, 0, KEEP), (vec![0, 1], 0));
        assert_eq!(site.mark(false, 600, KEEP), (vec![0, 1], 1));
    }
}
