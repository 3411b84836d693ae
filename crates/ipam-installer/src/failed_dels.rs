//! Repeats the DELs that have failed, by `ipamctl gc` in a thread: a runtime often doesn't. The records are
//! read first, so on a node without a failed DEL no process is started.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tokio::process::Command;

use crate::check::folders;
use crate::node::Node;
use crate::time_limit::within;

/// Pause between two looks at the records.
const PAUSE: Duration = Duration::from_secs(10);

/// Pause after a DEL that has failed again: an engine may be away.
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// Longest time of an `ipamctl gc`, which gives each attachment 20 seconds.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Lets `ipamctl gc` repeat them in a thread, beside the looks. What it says is in this process's
/// log.
pub(crate) fn start(node: &Node) {
    let state_dir = node.arguments.state_dir.clone();
    let conflists = node.arguments.conflists.clone();
    let mut gc = node.ipamctl(&[&conflists]);
    gc.arg("gc").kill_on_drop(true);
    thread::spawn(move || {
        loop {
            let mut folders = folders(&[&conflists], "stateDir");
            folders.insert(state_dir.clone());
            // A folder that can't be read may have some.
            let may_have = |folder: &PathBuf| chain::has_unfinished(folder).unwrap_or(true);
            let is_done = !folders.iter().any(may_have) || succeeds(&mut gc, TIME_LIMIT);
            thread::sleep(if is_done { PAUSE } else { LONG_PAUSE });
        }
    });
}

/// Runs a command; false if it has failed, or didn't end in this time and was killed.
fn succeeds(command: &mut Command, time: Duration) -> bool {
    let status = within(time, "it did not end", async {
        Ok(command.status().await?)
    });
    let status = status.inspect_err(|why| eprintln!("ipamctl: {why:#}"));
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("1000").kill_on_drop(true);
        assert!(!succeeds(&mut command, Duration::from_millis(100)));
        assert!(succeeds(&mut Command::new("true"), TIME_LIMIT));
    }
}
