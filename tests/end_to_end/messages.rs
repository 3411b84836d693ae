//! Error messages, word for word, as `testdata/messages.json` has them. Each names the
//! delegate, its command, its answer, and the delegates that were undone.
//!
//! With `UPDATE_MESSAGES` set, the tests replace the file.

use std::fs;

use harness::{Sandbox, repository};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

use crate::waiting::wait_for;

const OURS: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// A sandbox with delegates that fail in every way.
fn sandbox() -> Sandbox {
    let add = |then: &str| format!("[ \"$CNI_COMMAND\" = ADD ] || exit 0\n{then}");
    let sandbox = Sandbox::default()
        .with_script("ipam-ds-job", &add(
            r#"echo '{"code": 120, "msg": "no such job: web-1", "details": "asked nomad at 10.0.0.4"}'
               echo 'connected to 10.0.0.4' >&2; exit 1"#,
        ))
        .with_script("dies", &add("echo 'allocating' >&2; kill -9 $$"))
        .with_script("fails", &add("echo 'panic: nil map'; echo 'goroutine 1:' >&2; echo 'main.go:7' >&2; exit 2"))
        .with_script("says-nothing", &add("exit 0"))
        .with_script("says-garbage", &add("echo ok"))
        .with_script("hangs", &add("echo 'dialing 10.0.0.4:8500' >&2; : > \"${0%/*}/../begun-$CNI_CONTAINERID\"; sleep 1000"))
        .with_script("never-lets-go", r#"case $CNI_COMMAND in
            ADD) echo '{"ips": []}' ;;
            *) echo "{\"code\": 130, \"msg\": \"the server is down\"}"; exit 1 ;;
            esac"#)
        .with_script("calls-back", "exec \"${0%/*}/ipam-delegated\"")
        .with_script("of-another-age", r#"echo '{"code": 1, "msg": "incompatible CNI versions", "details": "config is \"1.1.0\""}'; exit 1"#)
        .with_script("not-executable", "");
    let path = sandbox.plugins().join("not-executable");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    sandbox
}

/// The error of a call, without the parts that differ in each run.
fn said(sandbox: &Sandbox, output: &harness::Output) -> Value {
    let mut error = output.error();
    for key in ["msg", "details"] {
        if let Some(text) = error[key].as_str() {
            let text = text.replace(sandbox.root().to_str().unwrap(), "…");
            error[key] = text
                .split('\n')
                .map(|line| Value::from(line.to_owned()))
                .collect();
        }
    }
    error
}

/// All messages, by their causes.
fn messages() -> Map<String, Value> {
    let mut all = Map::new();
    let sandbox = sandbox();
    let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/30"}]]});
    let mut say = |what: &str, command: &str, container: &str, delegates: &[&str], more: &Value| {
        let mut config = sandbox.config("1.1.0", delegates, &ranges);
        for (key, value) in more.as_object().unwrap() {
            match key.strip_prefix("ipam.") {
                Some(key) => config["ipam"][key] = value.clone(),
                None => config[key] = value.clone(),
            }
        }
        let output = sandbox
            .call("ipam-delegated", command, &config)
            .container(container)
            .run();
        all.insert(what.to_owned(), said(&sandbox, &output));
    };
    let none = json!({});
    let behind = |delegate| [OURS[0], OURS[1], delegate];

    say(
        "a selector that says why",
        "ADD",
        "a",
        &["ipam-ds-job", OURS[1]],
        &none,
    );
    say(
        "a delegate that isn't there",
        "ADD",
        "b",
        &behind("ipam-da-gone"),
        &none,
    );
    say(
        "a delegate that can't be executed",
        "ADD",
        "c",
        &behind("not-executable"),
        &none,
    );
    say(
        "a delegate that is killed",
        "ADD",
        "d",
        &behind("dies"),
        &none,
    );
    say(
        "a delegate that fails in its own words",
        "ADD",
        "e",
        &behind("fails"),
        &none,
    );
    say(
        "a delegate that says nothing",
        "ADD",
        "f",
        &behind("says-nothing"),
        &none,
    );
    say(
        "a delegate that says garbage",
        "ADD",
        "g",
        &behind("says-garbage"),
        &none,
    );
    say(
        "a delegate that hangs",
        "ADD",
        "h",
        &behind("hangs"),
        &json!({"ipam.delegateTimeout": "3s"}),
    );
    say(
        "a delegate of another age",
        "ADD",
        "i",
        &behind("of-another-age"),
        &none,
    );
    say(
        "a rollback that fails, too",
        "ADD",
        "j",
        &["never-lets-go", OURS[0], "dies"],
        &none,
    );
    say(
        "a configuration that is wrong",
        "ADD",
        "k",
        &OURS,
        &json!({"ipam.ranges": [[{"subnet": "10.1.0.7/30"}]]}),
    );
    say(
        "a chain that calls itself",
        "ADD",
        "l",
        &["ipam-delegated"],
        &none,
    );
    say(
        "a delegate that calls the chain back",
        "ADD",
        "m",
        &["calls-back"],
        &none,
    );

    let config = sandbox.config("1.1.0", &OURS, &ranges);
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .container("held")
        .run()
        .result();
    say("a pool that is full", "ADD", "n", &OURS, &none);
    say(
        "a pool that is full, by STATUS",
        "STATUS",
        "-",
        &OURS,
        &none,
    );
    say("a second ADD", "ADD", "held", &OURS, &none);
    say(
        "an address that is requested and taken",
        "ADD",
        "o",
        &OURS,
        &json!({"runtimeConfig": {"ips": ["10.1.0.2"]}}),
    );
    say(
        "a CHECK that finds another's address",
        "CHECK",
        "p",
        &OURS,
        &json!({"prevResult": {"ips": [{"address": "10.1.0.2/30"}]}}),
    );
    say(
        "a DEL that two can't do",
        "DEL",
        "q",
        &["never-lets-go", OURS[0], "never-lets-go"],
        &none,
    );
    let config = sandbox.config("1.1.0", &["never-lets-go"], &none);
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .container("forgotten")
        .run()
        .result();
    say(
        "a GC of what won't let go",
        "GC",
        "-",
        &["never-lets-go"],
        &json!({"cni.dev/valid-attachments": []}),
    );
    say("a GC without a list", "GC", "-", &OURS, &none);

    let config = sandbox.config("1.1.0", &behind("hangs"), &json!({"subnet": "10.2.0.0/24"}));
    let running = sandbox
        .call("ipam-delegated", "ADD", &config)
        .container("r")
        .start();
    // The delegate has written to stderr, and is still running.
    wait_for(|| sandbox.root().join("begun-r").exists());
    let pid = Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    all.insert(
        "an ADD that is interrupted".to_owned(),
        said(&sandbox, &running.output()),
    );
    all
}

/// Compares messages with a file of `testdata`. With `UPDATE_MESSAGES` set, replaces the file first.
#[track_caller]
pub(crate) fn are_recorded(file: &str, said: Map<String, Value>) {
    let file = repository().join("testdata").join(file);
    let said = Value::Object(said);
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        let mut text = serde_json::to_string_pretty(&said).unwrap();
        text.push('\n');
        fs::write(&file, text).unwrap();
    }
    let expected: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    for (what, message) in expected.as_object().unwrap() {
        assert_eq!(&said[what], message, "{what}");
    }
    assert_eq!(
        said.as_object().unwrap().len(),
        expected.as_object().unwrap().len()
    );
}

#[test]
fn each_error_message_is_the_recorded_one() {
    are_recorded("messages.json", messages());
}
