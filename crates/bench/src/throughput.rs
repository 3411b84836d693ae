//! Measures ADDs per second with concurrent callers, all contenders in turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use super::contender::{Contender, Kind};
use super::fill::Fill;
use super::side::{Side, Storage};

/// Numbers of concurrent callers.
pub(crate) const CALLERS: [usize; 4] = [1, 4, 16, 64];

/// Number of containers that are added. Each round starts with none.
pub(crate) const CONTAINERS: usize = 192;

/// Number of measurements of each contender; the median is used.
const ROUNDS: usize = 5;

/// Throughput of one contender.
pub(crate) struct Measured {
    pub(crate) callers: usize,
    /// Index of the contender.
    pub(crate) of: usize,
    /// ADDs per second.
    pub(crate) rate: f64,
}

pub(crate) fn measure(contenders: &[Contender], storage: &Storage) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for callers in CALLERS {
        let mut rates = vec![Vec::new(); contenders.len()];
        // With used storage, a contender keeps its folders in all rounds.
        let sides = contenders.iter().map(|contender| fresh(contender, storage));
        let mut sides = sides.collect::<Result<Vec<_>>>()?;
        for round in 0..ROUNDS {
            for i in 0..contenders.len() {
                let of = (i + round) % contenders.len();
                if round > 0 && storage.used == 0 {
                    sides[of] = fresh(&contenders[of], storage)?;
                }
                rates[of].push(rate(&sides[of], callers)?);
                if storage.used > 0 && contenders[of].kind != Kind::Minimum {
                    remove(&sides[of])?;
                }
            }
        }
        for (of, mut rates) in rates.into_iter().enumerate() {
            rates.sort_unstable_by(f64::total_cmp);
            let rate = rates[rates.len() / 2];
            all.push(Measured { callers, of, rate });
        }
    }
    Ok(all)
}

fn fresh(contender: &Contender, storage: &Storage) -> Result<Side> {
    Side::new(contender, storage, Fill::Count(0))
}

/// Adds all containers; returns the ADDs per second.
fn rate(side: &Side, callers: usize) -> Result<f64> {
    let next = AtomicUsize::new(0);
    let call = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= CONTAINERS {
                return Ok(());
            }
            side.call("ADD", &container(number))?;
        }
    };
    let started = Instant::now();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..callers).map(|_| scope.spawn(call)).collect();
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().expect("a caller doesn't panic"))
    })?;
    Ok(CONTAINERS as f64 / started.elapsed().as_secs_f64())
}

/// Deletes all containers, so that the next round starts with none.
fn remove(side: &Side) -> Result<()> {
    for number in 0..CONTAINERS {
        side.call("DEL", &container(number))?;
    }
    Ok(())
}

fn container(number: usize) -> String {
    format!("c{number:063x}")
}
