//! Helpers that wait for a process, or make it wait.

use std::fmt::Debug;
use std::fs::{self, File};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::Sandbox;
use rustix::fs::{FlockOperation, flock};

/// Longest time that [`wait_for`] waits. What a test waits for takes milliseconds, or a few
/// seconds on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until this holds. If it never does, the panic names the caller's line.
#[track_caller]
pub(crate) fn wait_for(holds: impl Fn() -> bool) {
    wait_for_value(holds, |&holds| holds);
}

/// Waits until a value is the wanted one, and returns it. If it never is, the panic names the
/// caller's line and the last value.
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

/// Waits until a value is this one. If it never is, the panic names the caller's line and the
/// last value.
#[track_caller]
pub(crate) fn wait_until_equal<T: Debug + PartialEq<U>, U>(current: impl Fn() -> T, wanted: U) {
    wait_for_value(current, move |value| *value == wanted);
}

/// The lock on the network's directory of reservations, as somebody else holds it until
/// this is dropped.
pub(crate) fn held_lock(sandbox: &Sandbox, network: &str) -> File {
    let directory = sandbox.data_dir().join(network);
    fs::create_dir_all(&directory).unwrap();
    let lock = File::create(directory.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}
