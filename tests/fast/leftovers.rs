//! Processes that delegates leave behind. If the delegates have ended by themselves, they block
//! nothing. After a call was killed, or had to end a delegate, they hold its lock until they end;
//! the next call waits for them, and ends none of them.

use std::fs;

use harness::kill_all;
use harness::{Sandbox, needs};
use rustix::process::Signal;
use serde_json::{Value, json};

use harness::waiting::wait_for;

#[test]
fn a_process_that_has_left_the_group_of_an_ended_delegate_holds_the_lock() {
    // timeout(1) makes a group.
    let late = "[ \"$CNI_COMMAND\" = ADD ] || exec ${0%/*}/host-local\n\
        timeout 1000 sh -c ': > ${0%/*}/../begun; while [ ! -e ${0%/*}/../go ]; do sleep 0.05; done; \
        exec ${0%/*}/host-local' \"$0\" < /dev/stdin";
    needs!("host-local");
    for ended_by in ["delegateTimeout", "SIGTERM"] {
        let sandbox = Sandbox::default()
            .with_reference("host-local")
            .with_script("late", late);
        let more = match ended_by {
            "delegateTimeout" => json!({"delegateTimeout": "10s"}),
            _ => json!({}),
        };
        let config = sandbox.config_of_one_range("1.0.0", &["late"], &more);
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        wait_for(|| sandbox.root().join("begun").exists());
        if ended_by == "SIGTERM" {
            running.signal(Signal::TERM);
        }
        assert!(!running.output().status.success());
        let del = || sandbox.run("DEL", &config);
        assert_eq!(del().code(), 11, "{ended_by}");
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{ended_by}");
        // What it reserves late is released.
        fs::write(sandbox.root().join("go"), "").unwrap();
        wait_for(|| sandbox.processes().is_empty());
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"], "{ended_by}");
        del().nothing();
        sandbox.holds_nothing("testnet");
    }
}

#[test]
fn a_daemon_that_a_delegate_started_stays() {
    for ending in ["exit 1", "echo '{\"ips\":[]}'"] {
        let sandbox = Sandbox::default().with_script(
            "starts-daemon",
            &format!(
                "[ \"$CNI_COMMAND\" = ADD ] || exit 0\n\
                 setsid sh -c 'echo $$ > \"$1\"; exec sleep 1000' x ${{0%/*}}/../daemon &\n\
                 while [ ! -s ${{0%/*}}/../daemon ]; do sleep 0.01; done\n{ending}"
            ),
        );
        let config = sandbox.config_of_one_range("1.1.0", &["starts-daemon"], &json!({}));
        sandbox.run("ADD", &config);
        for command in ["DEL", "GC", "DEL"] {
            let output = sandbox.run(command, &config);
            assert!(output.status.success(), "{ending} {command}: {output:?}");
        }
        assert!(sandbox.records("testnet").is_empty(), "{ending}");
        let daemon = fs::read_to_string(sandbox.root().join("daemon")).unwrap();
        let left = sandbox.processes();
        assert_eq!(left.len(), 1, "{ending}: {left:?}");
        assert!(left[0].starts_with(daemon.trim()), "{ending}: {left:?}");
        kill_all(&sandbox);
    }
}

/// A chain with a killed ADD and a delegate that is still running.
fn killed_add(delegate: &str) -> (Sandbox, Value) {
    let script =
        format!("[ \"$CNI_COMMAND\" = ADD ] || exit 0\n: > \"${{0%/*}}/../begun\"; {delegate}");
    let sandbox = Sandbox::default().with_script("goes-on", &script);
    let config = sandbox.config_of_one_range("1.1.0", &["goes-on"], &json!({}));
    let running = sandbox.call("ipam-delegated", "ADD", &config).start();
    wait_for(|| sandbox.root().join("begun").exists());
    running.kill();
    (sandbox, config)
}

#[test]
fn a_del_lets_a_killed_calls_delegate_end_by_itself() {
    let (sandbox, config) =
        killed_add("while [ ! -e ${0%/*}/../go ]; do sleep 0.01; done; : > ${0%/*}/../ended");
    let del = sandbox.call("ipam-delegated", "DEL", &config).start();
    let opened = format!("/proc/{}/fd", del.id());
    let has_opened = |file: &str| {
        let files = fs::read_dir(&opened).into_iter().flatten().flatten();
        let mut paths = files.map(|opened| fs::read_link(opened.path()));
        paths.any(|path| path.is_ok_and(|path| path.ends_with(file)))
    };
    wait_for(|| has_opened("c1:eth0.json"));
    fs::write(sandbox.root().join("go"), "").unwrap();
    let output = del.output();
    output.nothing();
    assert_eq!(output.stderr, "");
    assert!(sandbox.root().join("ended").exists());
}

#[test]
fn naming_the_locks_holders_reads_nothing_that_may_block() {
    needs!("trace");
    let (sandbox, config) = killed_add("sleep 1000");
    let trace = sandbox.root().join("trace");
    let output = sandbox
        .call("ipam-delegated", "DEL", &config)
        .traced(&trace, &["-f"])
        .run();
    assert_eq!(output.code(), 11);
    let trace = fs::read_to_string(trace).unwrap();
    assert!(trace.contains("/fdinfo/"), "it has looked");
    let of_others = |line: &&str| line.contains("\"/proc/") && !line.contains("/proc/self/");
    let is_known = |line: &str| {
        [
            "/fd\"",
            "/fd/",
            "/fdinfo/",
            "/comm\"",
            "\"/proc\"",
            "\"/proc/sys/",
        ]
        .iter()
        .any(|file| line.contains(file))
    };
    // A link is read without opening its target.
    let looks = |line: &str| line.contains("/fd/") && !line.contains("readlink");
    let others: Vec<&str> = trace
        .lines()
        .filter(of_others)
        .filter(|line| !is_known(line) || looks(line))
        .collect();
    assert_eq!(others, [""; 0]);
    kill_all(&sandbox);
}

#[test]
fn a_del_without_an_earlier_call_looks_at_no_process() {
    needs!("trace");
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_ranges("1.1.0");
    sandbox.run("ADD", &config).result();
    let trace = sandbox.root().join("trace");
    for command in ["DEL", "GC"] {
        let output = sandbox
            .call("ipam-delegated", command, &config)
            .traced(&trace, &[])
            .run();
        output.nothing();
        let trace = fs::read_to_string(&trace).unwrap();
        let looks = ["/environ", "/fdinfo", "\"/proc\""];
        assert!(
            !looks.iter().any(|look| trace.contains(look)),
            "{command}: {trace}"
        );
    }
}
