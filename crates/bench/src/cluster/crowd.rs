//! Many callers at once, in threads of this process.

use std::sync::{Mutex, RwLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::interrupt;
use super::target::Target;
use crate::samples::Samples;

/// Stack size of a caller's thread.
const STACK: usize = 1 << 20;

/// A measurement of a crowd.
pub(crate) struct Crowded {
    /// Time from the common start to the end of the last call.
    pub(crate) total: Duration,
    /// Time of each call.
    pub(crate) each: Samples,
}

/// Starts this number of callers at the same time; each makes this number of calls in sequence.
/// Each call gets its number.
///
/// # Errors
///
/// The first call that failed.
pub(crate) fn crowd(
    target: &dyn Target,
    callers: usize,
    calls: usize,
    call: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<Crowded> {
    interrupt::check()?;
    let gate = RwLock::new(());
    let (failed, each) = (Mutex::new(None), Mutex::new(Samples::default()));
    let work = |caller: usize| {
        target.enter();
        drop(gate.read());
        for i in 0..calls {
            let started = Instant::now();
            let done = call(caller * calls + i);
            each.lock()
                .expect("no caller panics")
                .push(started.elapsed());
            if let Err(error) = done {
                failed
                    .lock()
                    .expect("no caller panics")
                    .get_or_insert(error);
                return;
            }
        }
    };
    let mut started = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let closed = gate.write();
        for caller in 0..callers {
            let work = &work;
            Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, move || work(caller))
                .context("a thread for each caller")?;
        }
        // By then, all callers wait at the gate.
        std::thread::sleep(Duration::from_millis(200));
        started = Instant::now();
        drop(closed);
        Ok(())
    })?;
    let total = started.elapsed();
    match failed.into_inner().expect("no caller panics") {
        Some(error) => Err(error),
        None => Ok(Crowded {
            total,
            each: each.into_inner().expect("no caller panics"),
        }),
    }
}
