//! Processes many values in several threads, for tools that read many files. Plugins don't use
//! it.

use std::num::NonZero;
use std::thread;

/// With fewer values than this, no thread is started.
const WORTH_A_THREAD: usize = 2_000;

/// Calls `work` for each value, in as many threads as the machine has processors; returns
/// the results in the order of the values.
///
/// # Panics
///
/// If `work` panics.
pub fn in_threads<'a, T: Sync, R: Send>(
    values: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(values.len() / WORTH_A_THREAD);
    if threads < 2 {
        return values.iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let started: Vec<_> = values
            .chunks(values.len().div_ceil(threads))
            .map(|chunk| scope.spawn(move || chunk.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let finished = started.into_iter();
        finished
            .flat_map(|thread| thread.join().expect("the work doesn't panic"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_values_however_many_there_are() {
        for count in [0, 1, WORTH_A_THREAD, 7 * WORTH_A_THREAD + 1] {
            let values: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = values.iter().map(|value| value * 2).collect();
            assert_eq!(in_threads(&values, |value| value * 2), doubled);
        }
    }
}
