//! Helpers that wait for a process, or delay one.

use std::fmt::Debug;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::Sandbox;
use rustix::fs::{FlockOperation, flock};

/// Longest wait of [`wait_for`]. Expected events take milliseconds, or a few seconds on a loaded
/// machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `holds` is true. If it stays false, the panic names the caller's line.
#[track_caller]
pub(crate) fn wait_for(holds: impl Fn() -> bool) {
    wait_for_value(holds, |&holds| holds);
}

/// Waits until `is_wanted` is true for a value, and returns the value. Otherwise the panic names
/// the caller's line and the last value.
#[track_caller]
pub(crate) fn wait_for_value<T: Debug>(
    current: impl Fn() -> T,
    is_wanted: impl Fn(&T) -> bool,
) -> T {
    let started = Instant::now();
    loop {
        let value = current();
        if is_wanted(&value) {
            return value;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "what this line waits for didn't come within {PATIENCE:?}; there is {value:?}"
        );
        sleep(Duration::from_millis(5));
    }
}

/// Waits until a value equals `wanted`. Otherwise the panic names the caller's line and the last
/// value.
#[track_caller]
pub(crate) fn wait_until_equal<T: Debug + PartialEq<U>, U>(current: impl Fn() -> T, wanted: U) {
    wait_for_value(current, move |value| *value == wanted);
}

/// Holds the lock on the network's directory of reservations until the file is dropped.
pub(crate) fn held_lock(sandbox: &Sandbox, network: &str) -> File {
    let directory = sandbox.data_dir().join(network);
    fs::create_dir_all(&directory).unwrap();
    let lock = File::create(directory.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}
