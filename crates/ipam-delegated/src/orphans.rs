//! Processes that a killed call has left behind: its delegates, which may still be
//! at work. Before what they do is undone, they are ended.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cni::wait_readable;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What the delegates of a call, and all that they start, have in their
/// environment: the call's own text.
pub(crate) const CALL: &str = "IPAM_DELEGATED_CALL";

/// How long we wait for the end of what has been killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends all processes of this call; returns how many there were.
pub(crate) fn end(call: &str) -> usize {
    let deadline = Instant::now() + PATIENCE;
    let mut ended = 0;
    // As often as there are some: one may start another before it ends.
    loop {
        let found = processes(call);
        for pid in &found {
            end_one(*pid, call, deadline);
        }
        ended += found.len();
        if found.is_empty() || Instant::now() > deadline {
            return ended;
        }
    }
}

fn processes(call: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?)?;
            (pid != rustix::process::getpid() && is_of(pid, call)).then_some(pid)
        })
        .collect()
}

fn is_of(pid: Pid, call: &str) -> bool {
    let environ = Path::new("/proc").join(pid.to_string()).join("environ");
    let wanted = format!("{CALL}={call}");
    fs::read(environ).is_ok_and(|environ| {
        environ
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    })
}

fn end_one(pid: Pid, call: &str, deadline: Instant) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    // Once more: until it was opened, its number may have become another's.
    if is_of(pid, call) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
        tracing::warn!(%pid, "ended a process that an earlier call has left behind");
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = wait_readable(&process, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn all_processes_of_a_call_are_ended_and_no_others() {
        let sleep = |call: &str| {
            Command::new("sh")
                .args(["-c", "sleep 100 & sleep 100"])
                .env(CALL, call)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let call = format!("test-{}", std::process::id());
        let (mut one, mut other) = (sleep(&call), sleep(&format!("{call}-other")));
        while processes(&call).len() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(end(&call) >= 3);
        assert!(!one.wait().unwrap().success());
        assert!(processes(&call).is_empty());
        assert!(other.try_wait().unwrap().is_none());
        end(&format!("{call}-other"));
        other.wait().unwrap();
    }
}
