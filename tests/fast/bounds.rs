//! Calls end within their time limit, whatever a delegate or a caller does.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use harness::{Sandbox, skip};
use serde_json::{Value, json};

use harness::waiting::wait_for;

fn config(sandbox: &Sandbox, delegates: &[&str], timeout: &Value) -> Value {
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "delegateTimeout": timeout});
    sandbox.config("1.0.0", delegates, &ipam)
}

#[test]
fn a_limit_that_no_clock_can_hold_is_refused_before_anything_runs() {
    for timeout in [json!(1e19), json!("500000000000y"), json!("25h")] {
        let script = ": > ${0%/*}/../has-run; echo '{\"ips\":[]}'";
        let sandbox = Sandbox::default().with_script("notes", script);
        let has_run = sandbox.root().join("has-run");
        let config = config(&sandbox, &["notes"], &timeout);
        let error = sandbox.call("ipam-delegated", "ADD", &config).run().error();
        assert_eq!(error["code"], 7);
        let msg = error["msg"].as_str().unwrap();
        assert!(
            msg.contains("ipam.delegateTimeout") && msg.contains("a day"),
            "{msg}"
        );
        assert!(!has_run.exists());
        let config = self::config(&sandbox, &["notes"], &json!("24h"));
        let call = sandbox.call("ipam-delegated", "ADD", &config);
        call.run().result();
        assert!(has_run.exists());
    }
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

/// A separate cgroup with frozen processes.
struct FrozenCgroup(PathBuf);

impl FrozenCgroup {
    /// `None` if cgroups can't be created here.
    fn new() -> Option<Self> {
        let name = format!("ipam-delegated-test-{}", std::process::id());
        let roots = [
            "/sys/fs/cgroup/freezer",
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/unified",
        ];
        roots.into_iter().find_map(|root| {
            let cgroup = Self(PathBuf::from(root).join(&name));
            fs::create_dir(&cgroup.0).ok()?;
            let has = |file: &str| cgroup.0.join(file).exists();
            (has("cgroup.procs") && (has("freezer.state") || has("cgroup.freeze")))
                .then_some(cgroup)
        })
    }

    fn set_frozen(&self, is_frozen: bool) {
        let (v1, v2) = (self.0.join("freezer.state"), self.0.join("cgroup.freeze"));
        let done = if v1.exists() {
            fs::write(v1, if is_frozen { "FROZEN" } else { "THAWED" })
        } else {
            fs::write(v2, if is_frozen { "1" } else { "0" })
        };
        done.unwrap();
    }
}

impl Drop for FrozenCgroup {
    fn drop(&mut self) {
        if self.0.exists() {
            self.set_frozen(false);
            for _ in 0..100 {
                if fs::remove_dir(&self.0).is_ok() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_delegate_that_cannot_be_ended_is_named_and_recorded() {
    let Some(cgroup) = FrozenCgroup::new() else {
        skip("no cgroup with a freezer can be made here");
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
    fs::write(cgroup.0.join("cgroup.procs"), &pid).unwrap();
    cgroup.set_frozen(true);
    let error = running.output().error();
    assert_eq!(error["code"], 11, "{error}");
    let msg = error["msg"].as_str().unwrap();
    assert!(
        msg.contains(pid.trim()) && msg.contains("can't be terminated"),
        "{msg}"
    );
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    // A DEL also names it, and succeeds once the delegate has ended.
    let error = sandbox.call("ipam-delegated", "DEL", &config).run().error();
    assert!(
        error["msg"].as_str().unwrap().contains(pid.trim()),
        "{error}"
    );
    cgroup.set_frozen(false);
    wait_for(|| sandbox.processes().is_empty());
    sandbox
        .call("ipam-delegated", "DEL", &config)
        .run()
        .nothing();
    assert!(sandbox.records("testnet").is_empty());
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_busy_executable_is_tried_again_within_the_limit() {
    let sandbox = Sandbox::default().with_script("busy", "echo '{}'");
    let path = sandbox.plugins().join("busy");
    let elf = fs::canonicalize("/bin/true").unwrap();
    fs::copy(elf, &path).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let config = config(&sandbox, &["busy"], &json!("3s"));
    let error = sandbox.call("ipam-delegated", "ADD", &config).run().error();
    assert_eq!(error["code"], 101, "{error}");
    drop(writer);
    // The delegate runs and prints nothing.
    let error = sandbox.call("ipam-delegated", "ADD", &config).run().error();
    assert_eq!(error["code"], 104, "{error}");
}
