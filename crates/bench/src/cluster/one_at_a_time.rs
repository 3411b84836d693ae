//! ADDs in sequence: with no address reserved, with 60,000, and with only one free address.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use super::calls::Allocator;
use super::interrupt;
use super::target::Target;
use crate::samples::Samples;

const ROUNDS: usize = 101;

/// Usable addresses of a /16.
const ALL: u32 = 65_533;

const LEVELS: [u32; 3] = [0, 60_000, ALL - 1];

/// The pools lie in `10.NET.0.0/16`, from this net on.
const FIRST_NET: u8 = 88;

/// The figures with this number of reserved addresses.
pub(crate) struct Level {
    pub(crate) reserved: u32,
    pub(crate) add: Samples,
    pub(crate) del: Samples,
    /// Cost of an ADD for the engine.
    pub(crate) per_add: Option<Vec<f64>>,
    pub(crate) per_del: Option<Vec<f64>>,
}

/// The figures of all levels and of a bare write.
pub(crate) struct OneAtATime {
    pub(crate) write: Samples,
    pub(crate) levels: Vec<Level>,
}

pub(crate) fn measure(target: &dyn Target, allocator: &Allocator<'_>) -> Result<OneAtATime> {
    let mut levels = Vec::new();
    for (reserved, net) in LEVELS.into_iter().zip(FIRST_NET..) {
        let pool = pool(reserved);
        let subnet = format!("10.{net}.0.0/16");
        target.write_pool(&pool, &json!({"ranges": [{"subnet": subnet}]}))?;
        target.fill(&pool, net, reserved)?;
        levels.push(Level {
            reserved,
            add: Samples::default(),
            del: Samples::default(),
            per_add: None,
            per_del: None,
        });
    }
    target.inside(|| {
        let mut write = Samples::default();
        for round in 0..ROUNDS {
            interrupt::check()?;
            let is_last = round + 1 == ROUNDS;
            let container = format!("one-{round}");
            let started = Instant::now();
            target.write_bare(&container)?;
            write.push(started.elapsed());
            for level in &mut levels {
                let pool = pool(level.reserved);
                let before = is_last.then(|| target.counters()).flatten();
                let started = Instant::now();
                allocator.add(&pool, 0, &container)?;
                level.add.push(started.elapsed());
                level.per_add = target.cost_since(before, 1);
                let before = is_last.then(|| target.counters()).flatten();
                let started = Instant::now();
                allocator.del(&pool, 0, &container)?;
                level.del.push(started.elapsed());
                level.per_del = target.cost_since(before, 1);
            }
        }
        Ok(OneAtATime { write, levels })
    })
}

fn pool(reserved: u32) -> String {
    format!("reserved-{reserved}")
}
