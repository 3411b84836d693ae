//! One ADD after the other, with no address reserved, with 60,000, and for the last one.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use super::calls::Allocator;
use super::counters::{Counters, PerCall};
use super::filling::fill;
use super::interrupt;
use super::target::Target;
use crate::samples::Samples;

const ROUNDS: usize = 101;

/// Addresses of a /16 that the plugin gives.
const ALL: u32 = 65_533;

const LEVELS: [u32; 3] = [0, 60_000, ALL - 1];

/// The figures with so many addresses reserved.
pub(crate) struct Level {
    pub(crate) reserved: u32,
    pub(crate) add: Samples,
    pub(crate) del: Samples,
    /// What an ADD costs etcd.
    pub(crate) per_add: Option<PerCall>,
    pub(crate) per_del: Option<PerCall>,
}

/// The figures of all levels, and of a bare put.
pub(crate) struct OneAtATime {
    pub(crate) put: Samples,
    pub(crate) levels: Vec<Level>,
}

pub(crate) fn measure(target: &Target, allocator: &Allocator<'_>) -> Result<OneAtATime> {
    let mut levels = Vec::new();
    for reserved in LEVELS {
        let pool = pool(reserved);
        target.write_pool(&pool, &json!({"ranges": [{"subnet": "10.98.0.0/16"}]}))?;
        fill(target, &pool, reserved)?;
        levels.push(Level {
            reserved,
            add: Samples::default(),
            del: Samples::default(),
            per_add: None,
            per_del: None,
        });
    }
    target.inside(|| {
        let mut put = Samples::default();
        for round in 0..ROUNDS {
            interrupt::check()?;
            let container = format!("one-{round}");
            let started = Instant::now();
            allocator.put(&container)?;
            put.push(started.elapsed());
            for level in &mut levels {
                let pool = pool(level.reserved);
                let before = (round + 1 == ROUNDS)
                    .then(|| Counters::of(target))
                    .flatten();
                let started = Instant::now();
                allocator.add(&pool, &container)?;
                level.add.push(started.elapsed());
                level.per_add = Counters::since(before, target, 1);
                let before = (round + 1 == ROUNDS)
                    .then(|| Counters::of(target))
                    .flatten();
                let started = Instant::now();
                allocator.del(&pool, &container)?;
                level.del.push(started.elapsed());
                level.per_del = Counters::since(before, target, 1);
            }
        }
        Ok(OneAtATime { put, levels })
    })
}

fn pool(reserved: u32) -> String {
    format!("reserved-{reserved}")
}
