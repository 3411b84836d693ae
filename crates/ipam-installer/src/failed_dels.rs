//! Repeats the DELs that have failed, by `ipamctl gc` in a thread: a runtime often doesn't. The records are
//! read first, so on a node without a failed DEL no process is started.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::check::folders;
use crate::node::Node;

/// Pause between two looks at the records.
const PAUSE: Duration = Duration::from_secs(10);

/// Pause after a DEL that has failed again: an engine may be away.
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// Lets `ipamctl gc` repeat them in a thread, beside the looks. What it says is in this process's
/// log.
pub(crate) fn start(node: &Node) {
    let state_dir = node.arguments.state_dir.clone();
    let conflists = node.arguments.conflists.clone();
    let mut gc = node.ipamctl(&[&conflists]).into_std();
    gc.arg("gc");
    thread::spawn(move || {
        loop {
            let mut folders = folders(&[&conflists], "stateDir");
            folders.insert(state_dir.clone());
            // A folder that can't be read may have some.
            let may_have = |folder: &PathBuf| chain::has_unfinished(folder).unwrap_or(true);
            let mut repeat = || gc.status().inspect_err(|why| eprintln!("ipamctl: {why}"));
            let is_done = !folders.iter().any(may_have) || repeat().is_ok_and(|s| s.success());
            thread::sleep(if is_done { PAUSE } else { LONG_PAUSE });
        }
    });
}
