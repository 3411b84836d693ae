//! Calls end within their time limit, whatever a delegate or a caller does.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Sandbox, skip};
use serde_json::{Value, json};

use harness::waiting::{PATIENCE, wait_for, wait_within};

fn config(sandbox: &Sandbox, delegates: &[&str], timeout: &Value) -> Value {
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "delegateTimeout": timeout});
    sandbox.config("1.0.0", delegates, &ipam)
}

#[test]
fn a_caller_that_does_not_read_stderr_holds_nothing_up() {
    let sandbox = Sandbox::default().with_script(
        "talks",
        "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo '{\"ips\":[]}'",
    );
    let config = config(&sandbox, &["talks"], &Value::Null);
    let running = sandbox.call("ipam-delegated", "ADD", &config).start();
    // The pipe is read only after the process has ended.
    let stat = PathBuf::from(format!("/proc/{}/stat", running.id()));
    wait_for(|| fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")));
    running.output().result();
}

/// A control group of version 1 whose processes are frozen: not even SIGKILL ends them. (In version
/// 2, it does.)
struct Freezer(PathBuf);

impl Freezer {
    /// `None` if it can't be created here.
    fn new() -> Option<Self> {
        let name = format!("ipam-delegated-test-{}", std::process::id());
        let folder = Path::new("/sys/fs/cgroup/freezer").join(name);
        fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }

    fn write(&self, file: &str, content: &str) {
        fs::write(self.0.join(file), content).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.write("freezer.state", "THAWED");
        wait_within(PATIENCE, || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn a_delegate_that_cannot_be_ended_is_named_and_recorded() {
    let Some(freezer) = Freezer::new() else {
        skip("no control group of version 1 can be made here");
        return;
    };
    let sandbox = Sandbox::default().with_script(
        "frozen",
        "[ \"$CNI_COMMAND\" = ADD ] || exit 0\n\
         echo $$ > ${0%/*}/../pid; while :; do sleep 0.01; done",
    );
    let config = config(
        &sandbox,
        &["ipam-ds-ranges", "ipam-da-host-local", "frozen"],
        &json!("5s"),
    );
    let running = sandbox.call("ipam-delegated", "ADD", &config).start();
    let pid = sandbox.root().join("pid");
    wait_for(|| fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    let pid = fs::read_to_string(pid).unwrap();
    freezer.write("cgroup.procs", &pid);
    freezer.write("freezer.state", "FROZEN");
    let ended = running.output();
    ended.refused(11, pid.trim());
    ended.refused(11, "can't be terminated");
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    // A DEL also names it, and succeeds once the delegate has ended.
    sandbox.run("DEL", &config).refused(11, pid.trim());
    freezer.write("freezer.state", "THAWED");
    wait_for(|| sandbox.processes().is_empty());
    sandbox.run("DEL", &config).nothing();
    sandbox.holds_nothing("testnet");
}
