//! Fuzz target of attachment records: a DEL by any of them ends, and runs nothing from elsewhere.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use bolero::TypeGenerator;
use fuzz::{Bytes, Document, Outcome, Sandbox, call, check, environment};
use ipam_delegated::IpamDelegated;
use serde_json::{Value, json};

/// A delegate: it logs the call, and prints a result on ADD. It is started through a link, and
/// finds the log by the link's place. Beside the log, `fails` makes DEL fail.
const DELEGATE: &str = r#"#!/bin/sh
log="${0%/*}/../log-of-delegates"
echo "${0##*/} $CNI_COMMAND" >>"$log/calls"
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.2/29"}]}'
[ "$CNI_COMMAND" != DEL ] || [ ! -e "$log/fails" ]
"#;

/// A delegate that is there, outside of `CNI_PATH`.
const TRAP: &str = "../log-of-delegates/trap";

/// A record, and the call that finds it.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    /// The first line.
    intent: Document,
    /// Selects the number of the lines that follow.
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

/// A sandbox with the delegates in `CNI_PATH`, and one, `trap`, beside it. The file that they are
/// links to is written once: one that has just been written can't always be started.
fn sandbox(delegate: &Path) -> Sandbox {
    let sandbox = Sandbox::default();
    let beside = sandbox.root().join("log-of-delegates");
    fs::create_dir(&beside).unwrap();
    for name in ["one", "two", "three"] {
        symlink(delegate, sandbox.plugins().join(name)).unwrap();
    }
    symlink(delegate, beside.join("trap")).unwrap();
    sandbox
}

fn file(sandbox: &Sandbox) -> PathBuf {
    sandbox.state_dir().join("testnet/c1:eth0.json")
}

/// A call of the chain with these delegates; returns the calls of delegates, too, as
/// `<name> <command>`.
fn ask(sandbox: &Sandbox, command: &str, delegates: &[&str]) -> (Outcome, Vec<String>) {
    let config = json!({"cniVersion": "1.1.0", "name": "testnet",
        "ipam": {"delegates": delegates}, "cni.dev/valid-attachments": []});
    let config = sandbox.confine(serde_json::to_vec(&config).unwrap());
    let environment = environment(command, &sandbox.plugins());
    let outcome = call(&IpamDelegated::default(), &environment, &config);
    let log = sandbox.root().join("log-of-delegates/calls");
    let calls = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(log);
    (outcome, calls.lines().map(str::to_owned).collect())
}

/// The lines of a record that an ADD and a failed DEL have written.
fn written(delegate: &Path) -> Vec<Value> {
    let sandbox = sandbox(delegate);
    assert!(ask(&sandbox, "ADD", &["one", "two"]).0.result().is_some());
    fs::write(sandbox.root().join("log-of-delegates/fails"), "").unwrap();
    assert!(ask(&sandbox, "DEL", &["one", "two"]).0.code().is_some());
    let text = fs::read_to_string(file(&sandbox)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The content of the file, from the lines of a record that was written.
fn record(input: &Input, written: &[Value]) -> Vec<u8> {
    let mut intents = vec![written[0].clone(); 3];
    intents[1]["adding"]["delegates"] = json!(["three"]);
    intents[2]["adding"]["delegates"] = json!(["one", TRAP]);
    if let Some((which, text)) = &input.text {
        let keys = ["trace", "netns", "args", "at", "containerId"];
        let key = keys[usize::from(*which) % keys.len()];
        let text = text.of(&["A=1", "1-1"]);
        for intent in &mut intents {
            intent["adding"][key] = json!(String::from_utf8_lossy(&text));
        }
    }
    let mut record = input.intent.of(&intents);
    record.push(b'\n');
    for line in &written[1..=usize::from(input.lines) % written.len()] {
        record.extend(line.to_string().into_bytes());
        record.push(b'\n');
    }
    if input.lines >= 128 {
        record.extend(input.line.of(&written[1..]));
        record.push(b'\n');
    }
    let cut_off = usize::from(input.cut_off.saturating_sub(192));
    record.truncate(record.len().saturating_sub(cut_off));
    record
}

#[test]
fn a_del_ends_whatever_is_recorded_and_runs_nothing_from_elsewhere() {
    let folder = Sandbox::default();
    let delegate = folder.plugins().join("delegate");
    fs::write(&delegate, DELEGATE).unwrap();
    fs::set_permissions(&delegate, fs::Permissions::from_mode(0o755)).unwrap();
    let written = written(&delegate);
    let with_record = |content: &[u8]| {
        let sandbox = sandbox(&delegate);
        fs::create_dir_all(file(&sandbox).parent().unwrap()).unwrap();
        fs::write(file(&sandbox), content).unwrap();
        sandbox
    };
    let unchanged: Vec<String> = written.iter().map(|line| format!("{line}\n")).collect();
    let sandbox = with_record(unchanged.concat().as_bytes());
    let (_, calls) = ask(&sandbox, "DEL", &["three"]);
    assert_eq!(calls, ["one DEL", "two DEL"], "the seed is not read");
    check!(Input, |input| {
        let sandbox = with_record(&record(input, &written));
        let ask = |command: &str| {
            let asked = ask(&sandbox, command, &["one", "two"]);
            let trapped = asked.1.iter().find(|call| call.starts_with("trap"));
            assert_eq!(trapped, None, "it is outside of CNI_PATH");
            asked
        };
        match input.before % 16 {
            0 => drop(ask("ADD")),
            1 => drop(ask("GC")),
            _ => {}
        }
        match ask("DEL") {
            (Outcome::Success(stdout), _) => {
                assert!(stdout.is_empty());
                assert!(!file(&sandbox).exists(), "the record is left");
            }
            // A delegate that isn't installed has not released its part.
            (Outcome::Failure { .. }, _) => assert!(file(&sandbox).exists()),
        }
        sandbox.assert_nothing_got_out();
    });
}
