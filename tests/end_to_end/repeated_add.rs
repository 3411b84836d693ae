//! ADD of an attachment that is on the network already, or was: an address in use stays.

use std::fs;

use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

const CHAIN: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

fn sandbox() -> (Sandbox, Value) {
    let sandbox = Sandbox::default().with_reference("host-local");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &CHAIN, &ipam);
    (sandbox, config)
}

fn call(sandbox: &Sandbox, plugin: &str, command: &str, id: &str, config: &Value) -> Output {
    let call = sandbox.call(plugin, command, config).container(id);
    call.run()
}

#[test]
fn an_attachment_that_host_local_made_keeps_its_address() {
    needs!("host-local");
    let (sandbox, config) = sandbox();
    let add = |plugin, id| call(&sandbox, plugin, "ADD", id, &config);
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
        let add = |id| call(&sandbox, "ipam-delegated", "ADD", id, &config);
        add("c1").result();
        let record = sandbox.state_dir().join("testnet/c1:eth0.json");
        match damage {
            "gone" => fs::remove_file(record).unwrap(),
            _ => fs::write(record, "{\"adding\":\n").unwrap(),
        }
        assert_eq!(add("c1").code(), 110, "{damage}");
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"], "{damage}");
        assert_eq!(add("c2").ips(), ["10.1.0.3"], "{damage}");
        let del = call(&sandbox, "ipam-delegated", "DEL", "c1", &config);
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
        call(&sandbox, "ipam-delegated", "DEL", &id, &config).nothing();
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
        let ours = |command, id| call(&sandbox, "ipam-delegated", command, id, &config);
        assert_eq!(ours("ADD", "c1").ips(), ["10.1.0.2"]);
        call(&sandbox, "host-local", "DEL", "c1", &config).nothing();
        // Its address may be another's by now.
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
        let add = || call(&sandbox, "ipam-delegated", "ADD", "c1", &config);
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
