//! Fuzz target of attachment records: a DEL ends any of them.

use std::fs;
use std::path::PathBuf;

use bolero::{TypeGenerator, check};
use fuzz::{Bytes, Document, Outcome, Sandbox, TEST_TIME};
use serde_json::{Value, json};

use crate::delegates::{self, Script};

/// A record, and the call that finds it.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    /// The first line.
    intent: Document,
    /// Selects the lines that follow.
    lines: u8,
    /// A further line, if the record has one.
    line: Document,
    /// Number of bytes at the end that were not written.
    cut_off: u8,
    /// With some values, one of its texts is any text.
    text: Option<(u8, Bytes)>,
    /// With some values, an ADD or a GC comes first.
    before: u8,
}

/// A delegate that is there, outside of `CNI_PATH`.
const TRAP: &str = "../state-of-delegates/trap";

/// First lines that are right, and one that leads out.
fn intents(input: &Input) -> Vec<Value> {
    let intent = |delegates: Value| {
        json!({"adding": {"format": 2, "network": "testnet", "containerId": "c1", "ifname": "eth0",
            "call": {"id": "1-1", "session": 1}, "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
            "boot": null, "netns": "/run/netns/c1", "args": "A=1", "delegates": delegates,
            "config": {"cniVersion": "1.0.0", "name": "testnet",
                "ipam": {"delegates": delegates}, "prevResult": {}}}})
    };
    let mut intents = vec![
        intent(json!(["one", "two"])),
        intent(json!(["three"])),
        intent(json!(["one", TRAP])),
    ];
    if let Some((which, text)) = &input.text {
        let keys = ["trace", "boot", "netns", "args"];
        let key = keys[usize::from(*which) % keys.len()];
        let text = text.of(&["A=1", "1-1"]);
        for intent in &mut intents {
            intent["adding"][key] = json!(String::from_utf8_lossy(&text));
        }
    }
    intents
}

/// The first line, made to be of a call that no other process has the mark of: what is
/// found with it would be terminated.
fn confined(intent: Vec<u8>) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(&intent) else {
        return intent;
    };
    match value.pointer_mut("/adding/call/id") {
        Some(id) if id.is_string() => {
            *id = json!(format!("{}-fuzz", i32::MAX));
            serde_json::to_vec(&value).unwrap()
        }
        _ => intent,
    }
}

/// The content of the file.
fn record(input: &Input) -> Vec<u8> {
    let selected = json!({"result": {"ips": [], "pools": [{"subnet": "10.0.0.0/29"}]}});
    let given = json!({"result": {"ips": [{"address": "10.0.0.2/29"}]}});
    let deleting = json!({"deleting": {"id": format!("{}-fuzz", i32::MAX), "session": 1}});
    let lines = [selected, given, json!({"added": {}}), deleting];
    let mut record = confined(input.intent.of(&intents(input)));
    record.push(b'\n');
    for line in &lines[..usize::from(input.lines) % (lines.len() + 1)] {
        record.extend(line.to_string().into_bytes());
        record.push(b'\n');
    }
    if input.lines >= 128 {
        record.extend(input.line.of(&lines));
        record.push(b'\n');
    }
    let cut_off = usize::from(input.cut_off.saturating_sub(192));
    record.truncate(record.len().saturating_sub(cut_off));
    record
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
            let record = record(input);
            fs::create_dir_all(file(&sandbox).parent().unwrap()).unwrap();
            fs::write(file(&sandbox), &record).unwrap();
            let config = json!({"cniVersion": "1.1.0", "name": "testnet",
                "ipam": {"delegates": ["one", "two"]}, "cni.dev/valid-attachments": []});
            let config = sandbox.confine(serde_json::to_vec(&config).unwrap());
            let ask = |command: &str| {
                let (outcome, calls) = delegates::ask(input, &sandbox, command, &config);
                let has_run = |name: &str| calls.iter().any(|call| call.starts_with(name));
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
                // A delegate that isn't installed is not configured either.
                Outcome::Failure { code, msg, .. } => panic!("{code} {msg}"),
            }
            sandbox.assert_nothing_got_out();
        });
}
