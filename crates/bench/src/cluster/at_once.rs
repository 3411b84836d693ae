//! Many callers at once: 1,000 for 1,000 addresses, and 128 for 16 each.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::{Result, ensure};
use serde_json::json;

use super::calls::Allocator;
use super::counters::{Counters, PerCall};
use super::crowd::crowd;
use super::target::Target;
use crate::samples::Samples;

/// Rounds of each measurement: the puts, then the ADDs, and the other way around.
const ROUNDS: usize = 3;

/// Callers that clean up.
const CLEANERS: usize = 32;

/// So many callers, each with so many calls, on a pool with so many addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) callers: usize,
    pub(crate) calls: usize,
    /// The most that the ADDs may take of the puts' time.
    pub(crate) bound: f64,
}

const CROWDS: [Crowd; 2] = [
    Crowd {
        callers: 1_000,
        calls: 1,
        bound: 4.0,
    },
    Crowd {
        callers: 128,
        calls: 16,
        bound: 3.0,
    },
];

/// The figures of a crowd.
pub(crate) struct Measured {
    pub(crate) crowd: Crowd,
    /// Time of all of them.
    pub(crate) puts: Samples,
    pub(crate) adds: Samples,
    /// Each call of the last round by itself.
    pub(crate) each_put: Samples,
    pub(crate) each_add: Samples,
    /// What a put and an ADD of the last round cost etcd.
    pub(crate) per_put: Option<PerCall>,
    pub(crate) per_add: Option<PerCall>,
}

pub(crate) fn measure(target: &Target, allocator: &Allocator<'_>) -> Result<Vec<Measured>> {
    CROWDS
        .iter()
        .map(|crowd| one(target, allocator, *crowd))
        .collect()
}

fn one(target: &Target, allocator: &Allocator<'_>, size: Crowd) -> Result<Measured> {
    let count = size.callers * size.calls;
    let pool = format!("crowd-{}", size.callers);
    target.write_pool(&pool, &range_of(count))?;
    let mut measured = Measured {
        crowd: size,
        puts: Samples::default(),
        adds: Samples::default(),
        each_put: Samples::default(),
        each_add: Samples::default(),
        per_put: None,
        per_add: None,
    };
    for round in 0..ROUNDS {
        let container = |i: usize| format!("{pool}-{round}-{i}");
        let puts = |measured: &mut Measured| -> Result<()> {
            let before = Counters::of(target);
            let put = |i: usize| allocator.put(&container(i));
            let done = crowd(target, size.callers, size.calls, &put)?;
            measured.per_put = Counters::since(before, target, count);
            measured.puts.push(done.total);
            measured.each_put = done.each;
            Ok(())
        };
        let adds = |measured: &mut Measured| -> Result<()> {
            let before = Counters::of(target);
            let given = Mutex::new(BTreeSet::new());
            let add = |i: usize| {
                let address = allocator.add(&pool, &container(i))?;
                let is_new = given.lock().expect("no caller panics").insert(address);
                ensure!(is_new, "an address was given twice");
                Ok(())
            };
            let done = crowd(target, size.callers, size.calls, &add)?;
            measured.per_add = Counters::since(before, target, count);
            measured.adds.push(done.total);
            measured.each_add = done.each;
            Ok(())
        };
        if round % 2 == 0 {
            puts(&mut measured)?;
            adds(&mut measured)?;
        } else {
            adds(&mut measured)?;
            puts(&mut measured)?;
        }
        println!(
            "  {} callers: puts {:.0} ms, ADDs {:.0} ms so far (medians)",
            size.callers,
            measured.puts.median(),
            measured.adds.median()
        );
        let del = |i: usize| allocator.del(&pool, &container(i));
        crowd(target, CLEANERS, count / CLEANERS, &del)?;
        for i in count / CLEANERS * CLEANERS..count {
            target.inside(|| del(i))?;
        }
    }
    Ok(measured)
}

/// A pool with exactly so many addresses.
pub(crate) fn range_of(count: usize) -> serde_json::Value {
    let last = 0x0a63_0000 + u32::try_from(count).unwrap_or(u32::MAX);
    // The gateway, which is given to nobody, is the subnet's last address.
    json!({"ranges": [{
        "subnet": "10.99.0.0/16",
        "rangeStart": "10.99.0.1",
        "rangeEnd": std::net::Ipv4Addr::from(last).to_string(),
        "gateway": "10.99.255.254",
    }]})
}
