//! Many callers at once, in threads of this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use harness::Namespace;

/// Makes `calls` calls, each with its number, by this number of concurrent callers; returns the
/// time until the last one has ended.
///
/// # Errors
///
/// A call that failed.
pub(crate) fn crowd(
    callers: usize,
    calls: usize,
    call: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<Duration> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= calls {
                return Ok(());
            }
            call(number)?;
        }
    };
    let started = Instant::now();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..callers).map(|_| scope.spawn(work)).collect();
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().expect("a caller doesn't panic"))
    })?;
    Ok(started.elapsed())
}

/// Runs `what` in a network namespace, with all threads and processes that it starts.
pub(crate) fn inside<T: Send>(namespace: &Namespace, what: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let entered = scope.spawn(|| {
            namespace.enter();
            what()
        });
        entered.join().expect("a measurement doesn't panic")
    })
}
