//! Waits for a process, or delays one.

use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::fs::{self, File};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::{Output, Running, Sandbox};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for what must happen, however loaded the machine is. Only a failing test waits so
/// long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until `holds` is true; false if it stays false for this long. The interval of its calls
/// grows with the time.
pub fn wait_within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        let waited = started.elapsed();
        if waited > patience {
            return false;
        }
        sleep((waited / 10).clamp(Duration::from_millis(1), Duration::from_millis(200)));
    }
    true
}

/// Waits until `holds` is true. If it stays false, the panic names the caller's line and the state.
#[track_caller]
pub fn wait_or_say<S: Display>(holds: impl FnMut() -> bool, state: impl FnOnce() -> S) {
    let is_over = !wait_within(PATIENCE, holds);
    assert!(!is_over, "it didn't come within {PATIENCE:?}: {}", state());
}

/// Waits until `holds` is true. If it stays false, the panic names the caller's line.
#[track_caller]
pub fn wait_for(holds: impl FnMut() -> bool) {
    wait_or_say(holds, || "still false");
}

/// Waits until `is_wanted` is true for a value, and returns the value. Otherwise the panic names
/// the caller's line and the last value.
#[track_caller]
pub fn wait_for_value<T: Debug>(current: impl Fn() -> T, is_wanted: impl Fn(&T) -> bool) -> T {
    let value = RefCell::new(current());
    let holds = || {
        value.replace(current());
        is_wanted(&value.borrow())
    };
    wait_or_say(holds, || format!("{:?}", value.borrow()));
    value.into_inner()
}

/// Waits until a value equals `wanted`. Otherwise the panic names the caller's line and the last
/// value.
#[track_caller]
pub fn wait_until_equal<T: Debug + PartialEq<U>, U>(current: impl Fn() -> T, wanted: U) {
    wait_for_value(current, move |value| *value == wanted);
}

/// Holds the lock on the network's directory of reservations until the file is dropped.
pub fn held_lock(sandbox: &Sandbox, network: &str) -> File {
    let directory = sandbox.data_dir().join(network);
    fs::create_dir_all(&directory).unwrap();
    let lock = File::create(directory.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

/// Waits until a process of the sandbox has opened the lock of the network's directory, which the
/// test holds.
#[track_caller]
pub fn wait_until_the_lock_is_wanted(sandbox: &Sandbox, network: &str) {
    let lock = sandbox.data_dir().join(network).join("lock");
    let has_opened = |process: &String| {
        let pid = process.split(' ').next().unwrap();
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut paths = files.flatten().map(|file| fs::read_link(file.path()));
        paths.any(|path| path.is_ok_and(|path| path == lock))
    };
    wait_for(|| sandbox.processes().iter().any(has_opened));
}

/// The output of a call whose wait for this lock ends by itself. If it doesn't, the lock is released
/// later, so that the call ends.
pub fn output_while(lock: File, running: Running) -> Output {
    thread::scope(|scope| {
        let output = scope.spawn(|| running.output());
        wait_within(PATIENCE, || output.is_finished());
        drop(lock);
        output.join().unwrap()
    })
}

/// Kills the processes of the sandbox, and waits for their end.
pub fn kill_all(sandbox: &Sandbox) {
    for line in sandbox.processes() {
        let pid = line.split(' ').next().unwrap().parse().unwrap();
        // The process may have ended already.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
    wait_for(|| sandbox.processes().is_empty());
}
