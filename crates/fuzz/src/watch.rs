//! Watchdog: prints an input that makes a call hang, and ends the process.

use std::fmt::Debug;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{process, thread};

/// Longest time of one input, on any machine. Inputs are small: one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Tries inputs of this type for [`TEST_TIME`](crate::TEST_TIME), each [`watched`].
#[macro_export]
macro_rules! check {
    ($input:ty, $each:expr) => {
        bolero::check!()
            .with_type::<$input>()
            .with_test_time($crate::TEST_TIME)
            .for_each(|input: &$input| {
                let each: &dyn Fn(&$input) = &$each;
                $crate::watched(input, || each(input))
            });
    };
}

/// Runs `f`; says for which input and ends the process where it doesn't return.
pub fn watched<T>(input: &(impl Debug + ?Sized), f: impl FnOnce() -> T) -> T {
    let shown = format!("{input:?}");
    let (done, wait) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if wait.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("hangs, after {LIMIT:?}, with {shown}");
                process::abort();
            }
        });
        // Dropped, and so noticed, where `f` panics as well.
        let _done = done;
        f()
    })
}
