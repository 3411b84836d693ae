//! How many ADDs a second many callers get through, all contenders in turn.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use super::contender::Contender;
use super::side::Side;

/// How many callers there are at a time.
pub(crate) const CALLERS: [usize; 4] = [1, 4, 16, 64];

/// How many containers are added, from none on.
pub(crate) const CONTAINERS: usize = 192;

/// How often each is measured; the median counts.
const ROUNDS: usize = 5;

/// What one contender got through.
pub(crate) struct Measured {
    pub(crate) callers: usize,
    /// Which contender.
    pub(crate) of: usize,
    /// ADDs a second.
    pub(crate) rate: f64,
}

pub(crate) fn measure(contenders: &[Contender], data: &Path) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for callers in CALLERS {
        let mut rates = vec![Vec::new(); contenders.len()];
        for round in 0..ROUNDS {
            for i in 0..contenders.len() {
                let of = (i + round) % contenders.len();
                rates[of].push(rate(&contenders[of], data, callers)?);
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

fn rate(contender: &Contender, data: &Path, callers: usize) -> Result<f64> {
    let side = Side::new(contender, data, 0)?;
    let next = AtomicUsize::new(0);
    let call = || -> Result<()> {
        loop {
            let container = next.fetch_add(1, Ordering::Relaxed);
            if container >= CONTAINERS {
                return Ok(());
            }
            side.call("ADD", &format!("c{container:063x}"))?;
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
