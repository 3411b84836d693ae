//! Delegates that hang, signals that end a call, callers that have ended.

use std::fs::{self};
use std::thread;

use harness::{Flavour, Form, Sandbox, many_routes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use harness::waiting::{held_lock, output_while, wait_for, wait_for_value};

/// Waits, with a child that waits as well. Ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & sleep 1000";

/// Waits forever on ADD; creates a file when it has begun.
const HANGS: &str = "[ \"$CNI_COMMAND\" = ADD ] || exit 0\n\
    : > \"${0%/*}/../begun\"; sleep 1000 & sleep 1000";

fn config(sandbox: &Sandbox, last: &str, more: &Value) -> Value {
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local", last];
    sandbox.config_of_one_range("1.1.0", &delegates, more)
}

#[track_caller]
fn nothing_is_left(sandbox: &Sandbox) {
    sandbox.holds_nothing("testnet");
    assert_eq!(sandbox.processes_that_stay(), [""; 0]);
}

/// Asserts that DEL of the runtime leaves nothing of an ADD whose delegate was killed.
#[track_caller]
fn del_leaves_nothing(sandbox: &Sandbox, config: &Value) {
    assert!(sandbox.reserved("testnet").is_empty());
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    sandbox.run("DEL", config).nothing();
    nothing_is_left(sandbox);
}

#[test]
fn a_delegate_past_its_time_is_ended_with_its_whole_group() {
    // Long enough for the other delegates, on any machine.
    let is_ended = |script, timeout| {
        let sandbox = Sandbox::default().with_script("hangs", script);
        let config = config(&sandbox, "hangs", &json!({ "delegateTimeout": timeout }));
        sandbox
            .run("ADD", &config)
            .error_is(11, "hangs: did not end within 10s, and was terminated");
        assert!(sandbox.reserved("testnet").is_empty());
        wait_for(|| sandbox.processes().is_empty());
        // It was killed, and may hold an address.
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    };
    thread::scope(|scope| {
        scope.spawn(|| is_ended(HANGS, json!(10)));
        scope.spawn(|| is_ended(STUBBORN, json!("10s")));
    });
}

#[test]
fn sigterm_and_sigint_stop_the_delegate_and_roll_back() {
    for signal in [Signal::TERM, Signal::INT] {
        println!("{signal:?}");
        let sandbox = Sandbox::default().with_script("hangs", HANGS);
        let config = config(&sandbox, "hangs", &json!({}));
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        wait_for(|| sandbox.root().join("begun").exists());
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
        running.signal(signal);
        running
            .output()
            .error_is(106, "hangs: was terminated, since the call was cancelled");
        del_leaves_nothing(&sandbox, &config);
    }
}

#[test]
fn sigterm_ends_an_add_that_waits_for_its_input_or_for_its_reader() {
    let sandbox = Sandbox::default();
    let config = config(&sandbox, "ipam-ds-ranges", &json!({}));
    let mut call = sandbox.call("ipam-delegated", "ADD", &config);
    // Its stdin stays open, without input.
    call = call.through(&["sh", "-c", "sleep 1000 | \"$0\""]);
    let running = call.start();
    // Not the shell, whose command line contains both.
    let is_plugin = |line: &String| line.contains("/ipam-delegated") && !line.contains("sleep");
    let plugin = || {
        let line = sandbox.processes().into_iter().find(is_plugin)?;
        let (pid, _) = line.split_once(' ')?;
        Pid::from_raw(pid.parse().ok()?)
    };
    let pid = wait_for_value(plugin, Option::is_some).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    wait_for(|| plugin().is_none());
    harness::kill_all(&sandbox);
    assert!(!running.output().status.success());

    let mut config = sandbox.config_of_ranges("1.0.0");
    config["ipam"]["routes"] = many_routes();
    let running = sandbox.call("ipam-delegated", "ADD", &config).start();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    wait_for(|| fs::read_to_string(&record).is_ok_and(|text| text.contains("\"added\"")));
    running.signal(Signal::TERM);
    wait_for(|| sandbox.reserved("testnet").is_empty());
    assert!(!running.output().status.success());
    nothing_is_left(&sandbox);
}

#[test]
fn a_result_of_an_allocator_that_nobody_hears_is_undone() {
    let sandbox = Sandbox::default();
    // It keeps what an earlier ADD holds.
    let pools = |name: &str, subnet: &str| json!([{"name": name, "subnet": subnet}]);
    let earlier = sandbox.allocator_call("ADD", "c1", &pools("red", "10.1.0.0/24"));
    earlier.run().result();
    let lock = held_lock(&sandbox, "pools");
    let call = sandbox.allocator_call("ADD", "c1", &pools("blue", "10.2.0.0/24"));
    let mut running = call.start();
    running.stop_listening();
    drop(lock);
    assert!(!running.output().status.success());
    assert_eq!(sandbox.reserved("pools"), ["10.1.0.2"]);
}

/// Asserts that a call is refused because processes of this sandbox hold the lock, and that it
/// ends none of them.
#[track_caller]
fn is_refused_by_processes_that_stay(sandbox: &Sandbox, command: &str, config: &Value) {
    let before = sandbox.processes();
    assert!(!before.is_empty(), "the delegate goes on");
    let refused = sandbox.run(command, config);
    for line in &before {
        let pid = line.split(' ').next().unwrap();
        refused.refused(11, &format!("{pid} ("));
    }
    refused.refused(11, "(hangs");
    assert_eq!(sandbox.processes(), before, "{command}");
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{command}");
}

#[test]
fn a_killed_calls_delegate_that_hangs_is_named_and_not_ended() {
    let hangs_once = "[ \"$CNI_COMMAND\" != ADD ] || { echo '{\"ips\":[]}'; exit; }\n\
         [ ! -e \"${0%/*}/../begun\" ] || exit 0\n: > \"${0%/*}/../begun\"; sleep 1000 & sleep 1000";
    for (killed, script) in [("ADD", HANGS), ("DEL", hangs_once)] {
        let sandbox = Sandbox::default().with_script("hangs", script);
        let mut config = config(&sandbox, "hangs", &json!({}));
        config["cni.dev/valid-attachments"] = json!([]);
        let call = |command| sandbox.call("ipam-delegated", command, &config);
        if killed == "DEL" {
            call("ADD").run().result();
        }
        let running = call(killed).start();
        // The shell has started both.
        wait_for(|| {
            let processes = sandbox.processes().into_iter();
            processes
                .filter(|line| line.contains(" sleep 1000"))
                .count()
                == 2
        });
        running.kill();
        let reserved = sandbox.reserved("testnet");
        for command in ["DEL", "GC", "ADD"] {
            is_refused_by_processes_that_stay(&sandbox, command, &config);
            assert_eq!(sandbox.reserved("testnet"), reserved, "{command}");
        }
        harness::kill_all(&sandbox);
        call("DEL").run().nothing();
        nothing_is_left(&sandbox);
    }
}

#[test]
fn an_add_that_cannot_be_undone_in_time_fails_and_stays_recorded() {
    let fails = "[ \"$CNI_COMMAND\" = ADD ] || exit 0\n\
        : > \"${0%/*}/../begun\"; while [ ! -e \"${0%/*}/../end\" ]; do sleep 0.01; done; exit 1";
    let undo = |form| {
        let sandbox = Sandbox::in_form(Flavour::Normal, form).with_script("fails", fails);
        let config = config(&sandbox, "fails", &json!({}));
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        wait_for(|| sandbox.root().join("begun").exists());
        let lock = held_lock(&sandbox, "testnet");
        fs::write(sandbox.root().join("end"), "").unwrap();
        let error = output_while(lock, running).error();
        assert!(error.to_string().contains("fails"), "{error}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"], "{error}");
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{error}");
        sandbox.run("DEL", &config).nothing();
        nothing_is_left(&sandbox);
    };
    thread::scope(|scope| {
        scope.spawn(|| undo(Form::OneFile));
        scope.spawn(|| undo(Form::Separate));
    });
}
