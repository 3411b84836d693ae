//! Fuzz target of attachment records: a DEL ends any of them.

use std::fs;
use std::path::PathBuf;

use bolero::{TypeGenerator, check};
use fuzz::{Bytes, Document, Outcome, Sandbox, TEST_TIME};
use serde_json::{Value, json};

use crate::delegates::{self, NAMES, Script};

/// A record, and what is asked while it is there.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    record: Document,
    /// With some values, one of its texts is any text.
    text: Option<(u8, Bytes)>,
    /// With some values, an ADD or a GC comes first.
    before: u8,
}

/// A delegate that is there, outside of `CNI_PATH`.
const TRAP: &str = "../state-of-delegates/trap";

/// Records that are right, at every stage, and one that leads out.
fn seeds(input: &Input) -> Vec<Value> {
    let record = |state: &str, delegates: Value, results: Value| {
        json!({"format": 1, "network": "testnet", "containerId": "c1", "ifname": "eth0",
            "state": state, "call": "1-1", "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
            "boot": null, "netns": "/run/netns/c1", "args": "A=1", "delegates": delegates,
            "results": results, "config": {"cniVersion": "1.0.0", "name": "testnet",
                "ipam": {"delegates": delegates}, "prevResult": {}}})
    };
    let selected = json!({"ips": [], "pools": [{"subnet": "10.0.0.0/29"}]});
    let given = json!({"ips": [{"address": "10.0.0.2/29"}]});
    let mut records = vec![
        record("added", json!(["one", "two"]), json!([selected, given])),
        record("adding", json!(["one", "two"]), json!([selected])),
        record("deleting", json!(["three"]), json!([given])),
        record("added", json!(["one", TRAP]), json!([selected, given])),
    ];
    if let Some((which, text)) = &input.text {
        let keys = ["call", "trace", "boot", "netns", "args"];
        let key = keys[usize::from(*which) % keys.len()];
        let text = text.of(&["A=1", "1-1"]);
        for record in &mut records {
            record[key] = json!(String::from_utf8_lossy(&text));
        }
    }
    records
}

/// The record, made to be of a call that no other process has the mark of: what is
/// found with it would be killed.
fn confined(record: Vec<u8>) -> Vec<u8> {
    let Ok(mut object) = serde_json::from_slice::<cni::Object>(&record) else {
        return record;
    };
    if let Ok(Some(call)) = object.read::<String>("", "call") {
        let call = format!("fuzz-{}-{call}", std::process::id());
        object.set("call", &call);
    }
    serde_json::to_vec(&object).unwrap()
}

/// The delegates that a record names and that aren't in `CNI_PATH`. It is read as
/// loosely as can be.
fn missing(record: &[u8]) -> bool {
    let record: Value = serde_json::from_slice(record).unwrap_or_default();
    let named = record["delegates"].as_array().cloned().unwrap_or_default();
    let mut names = named.iter().filter_map(Value::as_str);
    names.any(|name| !NAMES.contains(&name))
}

fn file(sandbox: &Sandbox) -> PathBuf {
    sandbox.state_dir().join("testnet/c1:eth0.json")
}

#[test]
fn with_harmless_delegates_a_del_succeeds_whatever_is_recorded() {
    let script = Script::new();
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|input: &Input| {
            let sandbox = script.sandbox();
            let record = confined(input.record.of(&seeds(input)));
            fs::create_dir_all(file(&sandbox).parent().unwrap()).unwrap();
            fs::write(file(&sandbox), &record).unwrap();
            let config = json!({"cniVersion": "1.1.0", "name": "testnet",
                "ipam": {"delegates": ["one", "two"]}, "cni.dev/valid-attachments": []});
            let config = sandbox.confine(serde_json::to_vec(&config).unwrap());
            let ask = |command: &str| {
                let (outcome, calls) = delegates::ask(input, &sandbox, command, &config);
                let has_run = |name: &str| calls.iter().any(|it| it.starts_with(name));
                assert!(!has_run("trap"), "it is outside of CNI_PATH: {calls:?}");
                (outcome, calls)
            };
            match input.before % 16 {
                // Without a result, which these delegates don't print, it fails.
                0 => assert!(ask("ADD").0.code().is_some()),
                1 => drop(ask("GC")),
                _ => {}
            }
            let (outcome, calls) = ask("DEL");
            match outcome {
                Outcome::Success(stdout) => {
                    assert!(stdout.is_empty());
                    assert!(!file(&sandbox).exists(), "the record is left");
                    assert!(calls.contains(&"one DEL".to_owned()), "{calls:?}");
                }
                Outcome::Failure { code, msg, .. } => {
                    assert!(missing(&record), "{code} {msg}");
                    assert_eq!(code, 100, "{msg}");
                }
            }
            sandbox.assert_nothing_got_out();
        });
}
