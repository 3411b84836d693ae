//! Many callers at once: 1,000 for 1,000 addresses, and 128 for 16 each.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use anyhow::{Result, ensure};
use serde_json::json;

use super::calls::Allocator;
use super::crowd::crowd;
use super::target::Target;
use crate::samples::Samples;

/// Rounds of each measurement: first the bare writes and then the ADDs, or vice versa.
const ROUNDS: usize = 3;

/// Number of callers for the clean-up.
const CLEANERS: usize = 32;

/// The numbers of callers, calls of each, and addresses in the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) callers: usize,
    pub(crate) calls: usize,
    /// The pool lies in `10.NET.0.0/16`.
    net: u8,
    /// The longest acceptable time of the ADDs, relative to that of the bare writes.
    pub(crate) bound: f64,
}

/// Numbers of callers, and of calls of each; and where their pool lies.
const CROWDS: [(usize, usize, u8); 2] = [(1_000, 1, 99), (128, 16, 94)];

/// The figures of a crowd.
pub(crate) struct Measured {
    pub(crate) crowd: Crowd,
    /// Total time of all writes.
    pub(crate) writes: Samples,
    pub(crate) adds: Samples,
    /// Each call of the last round.
    pub(crate) each_write: Samples,
    pub(crate) each_add: Samples,
    /// Cost of a bare write and of an ADD for the engine, in the last round.
    pub(crate) per_write: Option<Vec<f64>>,
    pub(crate) per_add: Option<Vec<f64>>,
}

pub(crate) fn measure(target: &dyn Target, allocator: &Allocator<'_>) -> Result<Vec<Measured>> {
    let crowds = CROWDS.iter().zip(target.words().bounds);
    let crowds = crowds.map(|(&(callers, calls, net), bound)| Crowd {
        callers,
        calls,
        net,
        bound,
    });
    crowds.map(|crowd| one(target, allocator, crowd)).collect()
}

fn one(target: &dyn Target, allocator: &Allocator<'_>, size: Crowd) -> Result<Measured> {
    let count = size.callers * size.calls;
    let pool = format!("crowd-{}", size.callers);
    target.write_pool(&pool, &range_of(size.net, count))?;
    let mut measured = Measured {
        crowd: size,
        writes: Samples::default(),
        adds: Samples::default(),
        each_write: Samples::default(),
        each_add: Samples::default(),
        per_write: None,
        per_add: None,
    };
    for node in 0..target.nodes() {
        // A node's first call after a boot registers it.
        target.inside(|| {
            allocator.add(&pool, node, "first")?;
            allocator.del(&pool, node, "first")
        })?;
    }
    for round in 0..ROUNDS {
        let container = |i: usize| format!("{pool}-{round}-{i}");
        let writes = |measured: &mut Measured| -> Result<()> {
            let before = target.counters();
            let write = |i: usize| target.write_bare(&container(i));
            let done = crowd(target, size.callers, size.calls, &write)?;
            measured.per_write = target.cost_since(before, count);
            measured.writes.push(done.total);
            measured.each_write = done.each;
            Ok(())
        };
        let adds = |measured: &mut Measured| -> Result<()> {
            let before = target.counters();
            let given = Mutex::new(BTreeSet::new());
            let add = |i: usize| {
                let address = allocator.add(&pool, i, &container(i))?;
                let is_new = given.lock().expect("no caller panics").insert(address);
                ensure!(is_new, "an address was given twice");
                Ok(())
            };
            let done = crowd(target, size.callers, size.calls, &add)?;
            measured.per_add = target.cost_since(before, count);
            measured.adds.push(done.total);
            measured.each_add = done.each;
            Ok(())
        };
        if round % 2 == 0 {
            writes(&mut measured)?;
            adds(&mut measured)?;
        } else {
            adds(&mut measured)?;
            writes(&mut measured)?;
        }
        println!(
            "  {} callers: bare {}s {:.0} ms, ADDs {:.0} ms so far (medians)",
            size.callers,
            target.words().write,
            measured.writes.median(),
            measured.adds.median()
        );
        let del = |i: usize| allocator.del(&pool, i, &container(i));
        crowd(target, CLEANERS, count / CLEANERS, &del)?;
        for i in count / CLEANERS * CLEANERS..count {
            target.inside(|| del(i))?;
        }
    }
    Ok(measured)
}

/// A pool with exactly this number of addresses of `10.NET.0.0/16`. No two pools of a cluster
/// overlap.
pub(crate) fn range_of(net: u8, count: usize) -> serde_json::Value {
    let start = u32::from(Ipv4Addr::new(10, net, 0, 0));
    let last = start + u32::try_from(count).unwrap_or(u32::MAX);
    // The gateway, which is never given, is the subnet's last address.
    json!({"ranges": [{
        "subnet": format!("10.{net}.0.0/16"),
        "rangeStart": format!("10.{net}.0.1"),
        "rangeEnd": Ipv4Addr::from(last).to_string(),
        "gateway": format!("10.{net}.255.254"),
    }]})
}
