//! A second ADD of an attachment doesn't release an address in use.

use std::fs;
use std::path::Path;

use harness::{IPAM_DELEGATED, Output, Sandbox, many_routes, needs};
use rustix::process::Signal;
use serde_json::{Value, json};

use harness::waiting::{held_lock, wait_for, wait_until_the_lock_is_wanted};

fn sandbox() -> (Sandbox, Value) {
    let sandbox = Sandbox::default().with_reference("host-local");
    let config = sandbox.config_of_ranges("1.0.0");
    (sandbox, config)
}

#[test]
fn a_second_add_without_a_record_costs_an_address_that_one_del_gives_back() {
    for damage in ["gone", "damaged"] {
        let (sandbox, config) = sandbox();
        let add = |id| sandbox.run_for("ADD", id, &config);
        add("c1").result();
        let record = sandbox.state_dir().join("testnet/c1:eth0.json");
        match damage {
            "gone" => fs::remove_file(record).unwrap(),
            _ => fs::write(record, "{\"adding\":\n").unwrap(),
        }
        assert_eq!(add("c1").ips(), ["10.1.0.3"], "{damage}");
        fs::remove_dir_all(sandbox.state_dir()).unwrap();
        let del = sandbox.run("DEL", &config);
        del.nothing();
        assert!(sandbox.reserved("testnet").is_empty(), "{damage}");
    }
}

#[test]
fn of_two_adds_at_once_one_gets_an_address_and_keeps_it() {
    let (sandbox, config) = sandbox();
    for round in 0..20 {
        let id = format!("c{round}");
        let start = || {
            let call = sandbox.call("ipam-delegated", "ADD", &config);
            call.container(&id).start()
        };
        let (one, other) = (start(), start());
        let outputs = [one.output(), other.output()];
        let (added, refused): (Vec<&Output>, Vec<&Output>) =
            outputs.iter().partition(|output| output.status.success());
        assert_eq!((added.len(), refused.len()), (1, 1), "{outputs:?}");
        assert_eq!(refused[0].code(), 110);
        assert_eq!(sandbox.reserved("testnet"), added[0].ips());
        sandbox.run_for("DEL", &id, &config).nothing();
        sandbox.holds_nothing("testnet");
    }
}

#[test]
fn an_earlier_adds_address_stays_whatever_the_next_add_fails_with() {
    needs!("host-local");
    let (sandbox, config) = sandbox();
    let add = |id, config: &Value| sandbox.run_for("ADD", id, config);
    sandbox
        .call("host-local", "ADD", &config)
        .container("c1")
        .run()
        .result();
    // No DNS; no address; another address; another pool, which is full.
    let mut failing = vec![config.clone(); 3];
    failing[0]["ipam"]["resolvConf"] = json!("/nonexistent");
    failing[1]["ipam"]["routes"] = json!([{"dst": "nowhere"}]);
    failing[2]["ipam"]["ranges"] =
        json!([[{"subnet": "10.2.0.0/30", "rangeStart": "10.2.0.1", "rangeEnd": "10.2.0.1"}]]);
    for config in failing {
        add("c1", &config).error();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    }
    // It waits for the lock until a signal.
    for more in [json!({"delegateTimeout": "300ms"}), json!({})] {
        let mut config = config.clone();
        let keys = config["ipam"].as_object_mut().unwrap();
        keys.extend(more.as_object().unwrap().clone());
        let lock = held_lock(&sandbox, "testnet");
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        if more.get("delegateTimeout").is_none() {
            wait_until_the_lock_is_wanted(&sandbox, "testnet");
            running.signal(Signal::TERM);
        }
        let output = running.output();
        drop(lock);
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    }
    assert_eq!(add("c2", &config).ips(), ["10.1.0.3"]);
}

/// strace's expression that fails writes of a record after the first one.
const NO_SPACE: &str = "inject=pwrite64:error=ENOSPC:when=2+";

#[test]
fn a_record_that_could_not_be_completed_is_removed_before_the_answer() {
    needs!("trace");
    let (sandbox, mut config) = sandbox();
    config["ipam"]["routes"] = many_routes();
    let add = || sandbox.call("ipam-delegated", "ADD", &config);
    let running = add().injected(NO_SPACE).start();
    let is_answering = || {
        let mut processes = sandbox.processes().into_iter();
        let stat = processes.find_map(|line| {
            let pid = line.split(' ').next()?.to_owned();
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            (name.trim() == "ipam-delegated").then_some(())
        });
        stat.is_some() && !sandbox.reserved("testnet").is_empty()
    };
    wait_for(|| is_answering() && sandbox.records("testnet").is_empty());
    // It waits for its reader: a kill leaves no record by which the ADD would be undone.
    assert_eq!(running.output().ips(), ["10.1.0.2"]);
    sandbox.run("DEL", &config).nothing();
    // One that can't be removed would be used against a container that runs.
    let options = ["-e", NO_SPACE, "-e", "inject=unlinkat:error=EIO:when=1"];
    let add = add().traced(Path::new("/dev/null"), &options);
    assert_eq!(add.run().code(), 5);
    sandbox.holds_nothing("testnet");
}

#[test]
fn an_add_whose_answer_is_not_read_keeps_the_attachment_until_it_is_undone() {
    let (sandbox, mut config) = sandbox();
    config["ipam"]["routes"] = many_routes();
    let mut running = sandbox.call("ipam-delegated", "ADD", &config).start();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    wait_for(|| fs::read_to_string(&record).is_ok_and(|text| text.contains("\"added\"")));
    config["cniVersion"] = json!("1.1.0");
    let process = format!("process {} (ipam-", running.id());
    for (plugin, command) in [
        (IPAM_DELEGATED, "DEL"),
        (IPAM_DELEGATED, "ADD"),
        (IPAM_DELEGATED, "GC"),
        ("ipam-gc", "GC"),
    ] {
        let refused = sandbox.call(plugin, command, &config).run();
        refused.refused(11, &process);
        assert_eq!(
            sandbox.reserved("testnet"),
            ["10.1.0.2"],
            "{plugin} {command}"
        );
    }
    running.stop_listening();
    running.output().failed(1, ["could not be delivered"]);
    sandbox.holds_nothing("testnet");
}

#[test]
fn only_the_rollback_of_a_failed_add_says_that_it_is_one() {
    let notes = "echo $CNI_COMMAND ${IPAM_DELEGATED_ROLLBACK-none} >> ${0%/*}/../log\n";
    let first = format!("{notes}[ $CNI_COMMAND != ADD ] || echo '{{\"ips\":[]}}'");
    let last = "[ $CNI_COMMAND = ADD ] || exit 0; [ ! -e ${0%/*}/../kill ] || { rm ${0%/*}/../kill; kill -9 $PPID; }; exit 1";
    let sandbox = Sandbox::default()
        .with_script("notes", &first)
        .with_script("fails", last);
    let config = sandbox.config("1.0.0", &["notes", "fails"], &json!({}));
    let run = |command| sandbox.run(command, &config);
    let log = || fs::read_to_string(sandbox.root().join("log")).unwrap();
    assert_eq!(run("ADD").code(), 103);
    run("DEL").nothing();
    assert_eq!(log(), "ADD none\nDEL 1\nDEL none\n");
    // The next ADD undoes a killed call.
    fs::write(sandbox.root().join("kill"), "").unwrap();
    fs::remove_file(sandbox.root().join("log")).unwrap();
    assert_eq!(run("ADD").status.code(), None, "it is killed");
    assert_eq!(run("ADD").code(), 103);
    assert_eq!(log(), "ADD none\nDEL none\nADD none\nDEL 1\n");
}
