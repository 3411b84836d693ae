//! A second ADD of an attachment doesn't release an address in use.

use std::fs;

use harness::{Node, Output, Sandbox, needs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::waiting::{held_lock, wait_for};

const CHAIN: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

fn sandbox() -> (Sandbox, Value) {
    let sandbox = Sandbox::default().with_reference("host-local");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &CHAIN, &ipam);
    (sandbox, config)
}

#[test]
fn an_attachment_that_host_local_made_keeps_its_address() {
    needs!("host-local");
    let (sandbox, config) = sandbox();
    let add = |plugin, id| sandbox.call(plugin, "ADD", &config).container(id).run();
    assert_eq!(add("host-local", "c1").ips(), ["10.1.0.2"]);
    let error = add("ipam-delegated", "c1").error();
    assert_eq!(error["code"], 110, "{error}");
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    assert!(sandbox.records("testnet").is_empty());
    assert_eq!(add("ipam-delegated", "c2").ips(), ["10.1.0.3"]);
}

#[test]
fn an_attachment_without_a_usable_record_keeps_its_address() {
    for damage in ["gone", "damaged"] {
        let (sandbox, config) = sandbox();
        let add = |id| sandbox.chain_call("ADD", id, &config).run();
        add("c1").result();
        let record = sandbox.state_dir().join("testnet/c1:eth0.json");
        match damage {
            "gone" => fs::remove_file(record).unwrap(),
            _ => fs::write(record, "{\"adding\":\n").unwrap(),
        }
        assert_eq!(add("c1").code(), 110, "{damage}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"], "{damage}");
        assert_eq!(add("c2").ips(), ["10.1.0.3"], "{damage}");
        let del = sandbox.chain_call("DEL", "c1", &config).run();
        del.nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"], "{damage}");
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
        sandbox.chain_call("DEL", &id, &config).run().nothing();
        assert!(sandbox.reserved("testnet").is_empty());
        assert!(sandbox.records("testnet").is_empty());
    }
}

#[test]
fn an_attachment_that_host_local_has_released_can_be_added_again() {
    needs!("host-local");
    for version in ["0.3.1", "0.4.0", "1.0.0"] {
        let (sandbox, mut config) = sandbox();
        config["cniVersion"] = json!(version);
        let ours = |command, id| sandbox.chain_call(command, id, &config).run();
        assert_eq!(ours("ADD", "c1").ips(), ["10.1.0.2"]);
        sandbox
            .call("host-local", "DEL", &config)
            .container("c1")
            .run()
            .nothing();
        // Another container may have the address now.
        fs::write(sandbox.data_dir().join("testnet/10.1.0.2"), "other\r\neth0").unwrap();
        let output = ours("ADD", "c1");
        assert_eq!(output.ips(), ["10.1.0.3"]);
        assert!(output.stderr.contains("CHECK says otherwise"), "{output:?}");
        ours("DEL", "c1").nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    }
}

#[test]
fn an_add_is_refused_if_check_confirms_the_record_or_cannot_tell() {
    for (check, detail) in [
        ("exit 0", ""),
        (
            r#"echo '{"code":11,"msg":"later"}'; exit 1"#,
            "CHECK could not tell: takes-notes: later",
        ),
        (
            "kill -9 $$",
            "CHECK could not tell: takes-notes: was ended by a signal",
        ),
    ] {
        let script = format!(
            "echo $CNI_COMMAND >> ${{0%/*}}/../log; [ $CNI_COMMAND = CHECK ] || {{ echo '{{\"ips\":[]}}'; exit 0; }}\n{check}"
        );
        let sandbox = Sandbox::default().with_script("takes-notes", &script);
        let config = sandbox.config("1.0.0", &["takes-notes"], &json!({}));
        let add = || sandbox.chain_call("ADD", "c1", &config).run();
        add().result();
        let error = add().error();
        assert_eq!(error["code"], 110, "{error}");
        assert!(
            error["details"].as_str().unwrap().contains(detail),
            "{error}"
        );
        let log = fs::read_to_string(sandbox.root().join("log")).unwrap();
        assert_eq!(log, "ADD\nCHECK\n", "nothing is undone");
    }
}

#[test]
fn an_add_that_fails_after_undoing_an_earlier_one_says_so() {
    let sandbox = Sandbox::default().with_script(
        "fails",
        "[ $CNI_COMMAND = ADD ] || exit 0\n\
         [ -e ${0%/*}/../again ] || { : > ${0%/*}/../again; kill -9 $PPID; sleep 0.1; }\nexit 1",
    );
    let config = sandbox.config("1.0.0", &["fails"], &json!({}));
    let add = || sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(add().status.code(), None, "it is killed");
    let output = add();
    let error = output.error();
    let details = error["details"].as_str().unwrap();
    assert!(details.contains("an earlier ADD of c1 eth0"), "{error}");
    assert_eq!(output.stderr.matches("ERROR").count(), 1, "{output:?}");
}

#[test]
fn an_earlier_adds_address_stays_whatever_the_next_add_fails_with() {
    needs!("host-local");
    let (sandbox, config) = sandbox();
    let add = |id, config: &Value| sandbox.chain_call("ADD", id, config).run();
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
    for more in [
        json!({"delegateTimeout": "300ms"}),
        json!({"execute": "always"}),
    ] {
        let mut config = config.clone();
        let keys = config["ipam"].as_object_mut().unwrap();
        keys.extend(more.as_object().unwrap().clone());
        let lock = held_lock(&sandbox, "testnet");
        let running = sandbox.call("ipam-delegated", "ADD", &config).start();
        if more.get("execute").is_some() {
            wait_for(|| sandbox.processes().len() > 1);
            std::thread::sleep(std::time::Duration::from_millis(200));
            let pid = Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
        }
        let output = running.output();
        drop(lock);
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    }
    assert_eq!(add("c2", &config).ips(), ["10.1.0.3"]);
}

#[test]
fn an_add_whose_record_could_not_be_completed_is_not_undone_by_the_next() {
    needs!("root");
    let (sandbox, config) = sandbox();
    let mut config = config;
    let routes: Vec<Value> = (0..400)
        .map(|n| json!({"dst": format!("10.{}.{}.0/24", n / 200, n % 200)}))
        .collect();
    config["ipam"]["routes"] = json!(routes);
    fs::create_dir(sandbox.state_dir()).unwrap();
    let node = Node::new();
    let state = sandbox.state_dir();
    node.sh(&format!(
        "mount -t tmpfs -o size=16k,mode=700 none {}",
        state.display()
    ));
    let add = |id| {
        let call = sandbox.call("ipam-delegated", "ADD", &config);
        call.container(id).run_on(&node)
    };
    let output = add("c1");
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(output.stderr.contains("can't be written"), "{output:?}");
    assert_eq!(add("c1").code(), 110);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    assert_eq!(add("c2").ips(), ["10.1.0.3"]);
}

#[test]
fn an_add_whose_answer_is_not_read_keeps_the_attachment_until_it_is_undone() {
    let (sandbox, mut config) = sandbox();
    // A result that is larger than a pipe's buffer.
    let routes: Vec<Value> = (0..4000)
        .map(|n| json!({"dst": format!("10.{}.{}.0/24", n / 250, n % 250)}))
        .collect();
    config["ipam"]["routes"] = json!(routes);
    let mut running = sandbox.call("ipam-delegated", "ADD", &config).start();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    wait_for(|| fs::read_to_string(&record).is_ok_and(|text| text.contains("\"added\"")));
    for command in ["DEL", "ADD"] {
        let error = sandbox.chain_call(command, "c1", &config).run().error();
        assert_eq!(error["code"], 11, "{command}: {error}");
        let process = format!("process {} (ipam-", running.id());
        assert!(error["msg"].as_str().unwrap().contains(&process), "{error}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    }
    running.stop_listening();
    assert!(!running.output().status.success());
    assert!(sandbox.reserved("testnet").is_empty());
    assert!(sandbox.records("testnet").is_empty());
}

#[test]
fn an_allocator_that_refuses_in_its_second_place_is_not_undone_in_its_first() {
    let by_name = "[ $CNI_COMMAND = ADD ] || exit 0\n\
        sed 's/.*\"prevResult\":{/{/; s/}$//; s/.*\"ipam\".*/{}/' > ${0%/*}/../$$\n\
        given=$(cat ${0%/*}/../$$); [ \"$given\" != {} ] || given='{\"ips\":[]}'\n\
        printf '%s,\"pools\":[{\"subnet\":\"%s\"}]}' \"${given%\\}}\" SUBNET";
    let script = |subnet| by_name.replace("SUBNET", subnet);
    let sandbox = Sandbox::default()
        .with_script("ipam-ds-one", &script("10.1.0.0/24"))
        .with_script("ipam-ds-two", &script("10.2.0.0/24"));
    let config = |delegates: &[&str]| sandbox.config("1.0.0", delegates, &json!({}));
    let two = config(&["ipam-ds-two", "ipam-da-host-local"]);
    let added = sandbox.chain_call("ADD", "c1", &two).run();
    assert_eq!(added.ips(), ["10.2.0.2"]);
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    let both = config(&[
        "ipam-ds-one",
        "ipam-da-host-local",
        "ipam-ds-two",
        "ipam-da-host-local",
    ]);
    assert_eq!(
        sandbox.chain_call("ADD", "c2", &both).run().ips(),
        ["10.1.0.2", "10.2.0.3"]
    );
    assert_eq!(sandbox.chain_call("ADD", "c1", &both).run().code(), 110);
    let reserved = sandbox.reservations("testnet");
    assert!(
        reserved.contains(&("10.2.0.2".to_owned(), "c1\r\neth0".to_owned())),
        "the live address was released: {reserved:?}"
    );
    for id in ["c1", "c2"] {
        sandbox.chain_call("DEL", id, &both).run().nothing();
    }
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_rollback_says_which_call_it_undoes() {
    let notes = "echo $CNI_COMMAND $IPAM_DELEGATED_CALL ${IPAM_DELEGATED_ROLLBACK-none} >> ${0%/*}/../log\n";
    let first = format!("{notes}[ $CNI_COMMAND != ADD ] || echo '{{\"ips\":[]}}'");
    let last = "[ $CNI_COMMAND = ADD ] || exit 0; [ ! -e ${0%/*}/../kill ] || { rm ${0%/*}/../kill; kill -9 $PPID; }; exit 1";
    let sandbox = Sandbox::default()
        .with_script("notes", &first)
        .with_script("fails", last);
    let config = sandbox.config("1.0.0", &["notes", "fails"], &json!({}));
    let run = |command| sandbox.call("ipam-delegated", command, &config).run();
    let log = || -> Vec<[String; 3]> {
        let log = fs::read_to_string(sandbox.root().join("log")).unwrap();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        log.lines()
            .map(|line| words(line).try_into().unwrap())
            .collect()
    };
    assert_eq!(run("ADD").code(), 103);
    run("DEL").nothing();
    let calls = log();
    assert_eq!(calls[0][..], ["ADD", &calls[0][1], "none"]);
    assert_eq!(calls[1][..], ["DEL", &calls[0][1], &calls[0][1]]);
    assert_eq!(calls[2][..], ["DEL", &calls[2][1], "none"]);
    assert_ne!(calls[2][1], calls[0][1]);
    // The next ADD undoes a killed call.
    fs::write(sandbox.root().join("kill"), "").unwrap();
    fs::remove_file(sandbox.root().join("log")).unwrap();
    assert_eq!(run("ADD").status.code(), None, "it is killed");
    assert_eq!(run("ADD").code(), 103);
    let calls = log();
    assert_eq!(calls[0][0], "ADD");
    assert_eq!(calls[1][..], ["DEL", &calls[1][1], &calls[0][1]]);
    assert_ne!(calls[1][1], calls[0][1]);
}
