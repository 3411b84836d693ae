//! Waiting for what a process does, and making it wait.

use std::fs::{self, File};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::Sandbox;
use rustix::fs::{FlockOperation, flock};

/// Waits until this is so.
pub(crate) fn wait_for(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it doesn't come"
        );
        sleep(Duration::from_millis(5));
    }
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
