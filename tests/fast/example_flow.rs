//! The worked example of the first ipam-delegated's documentation ("Example flow"): the input of
//! each delegate at each step, with success, and with a failure of either delegate.

use std::fs;

use harness::{Output, Sandbox, repository};
use serde_json::{Value, json};

/// Input of the bridge plugin, and so of `ipam-delegated`: step 1. The unusual spacing must be
/// preserved.
const CONFIG: &str = r#"{
  "cniVersion": "1.0.0", "name":  "example",
  "type": "bridge",
  "ipam": {
    "type": "ipam-delegated",
    "delegates": [ "ipam-ds-hello", "ipam-da-world" ],
    "hello": "local-pool",
    "world": 23
  }
}
"#;

/// The environment that a runtime sets.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=p"),
    ("CNI_CONTAINERID", "example-container"),
    ("CNI_IFNAME", "eth7"),
    ("CNI_NETNS", "/run/netns/example"),
];

/// A call that a delegate recorded.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    delegate: String,
    command: String,
    stdin: String,
}

impl Recorded {
    fn config(&self) -> Value {
        serde_json::from_str(&self.stdin).unwrap()
    }

    /// Checks that this is a call of the delegate with the received configuration and this
    /// `prevResult`.
    #[track_caller]
    fn is(&self, delegate: &str, command: &str, prev_result: &Value) {
        assert_eq!(
            (self.delegate.as_str(), self.command.as_str()),
            (delegate, command)
        );
        let mut expected: Value = serde_json::from_str(CONFIG).unwrap();
        expected["prevResult"] = prev_result.clone();
        assert_eq!(self.config(), expected);
    }

    /// Checks that this is a call of the delegate with exactly the received input.
    #[track_caller]
    fn is_verbatim(&self, delegate: &str, command: &str) {
        assert_eq!(
            (self.delegate.as_str(), self.command.as_str()),
            (delegate, command)
        );
        assert_eq!(self.stdin, CONFIG);
    }
}

/// Runs ADD of the example. Compares each delegate's environment, and returns the output and the
/// delegates' inputs in order.
fn add(failing: &str) -> (Output, Vec<Recorded>) {
    let sandbox = Sandbox::default()
        .with_testdata("ipam-ds-hello")
        .with_testdata("ipam-da-world");
    let record = sandbox.root().join("record");
    fs::create_dir(&record).unwrap();
    let mut call = sandbox
        .call("ipam-delegated", "ADD", &Value::Null)
        .env("RECORD", &record)
        .env("TESTDATA", repository().join("testdata/delegates"))
        .env("FAILING", failing)
        .stdin(CONFIG);
    for (name, value) in ENVIRONMENT {
        call = call.env(name, value);
    }
    let output = call.run();

    let mut files: Vec<_> = fs::read_dir(&record)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().unwrap() == "env")
        .collect();
    files.sort();
    let recorded = files.iter().map(|file| {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let (_, name) = name.split_once('-').unwrap();
        let (delegate, command) = name.rsplit_once('-').unwrap();
        let mut environment: Vec<String> = ENVIRONMENT
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .chain([
                format!("CNI_COMMAND={command}"),
                format!("CNI_PATH={}", sandbox.plugins().display()),
            ])
            .collect();
        environment.sort();
        let got: Vec<String> = fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(Into::into)
            .collect();
        assert_eq!(got, environment, "{delegate} {command}");
        Recorded {
            delegate: delegate.to_owned(),
            command: command.to_owned(),
            stdin: fs::read_to_string(file.with_extension("stdin")).unwrap(),
        }
    });
    let recorded = recorded.collect();
    (output, recorded)
}

/// Answer of `ipam-ds-hello` in step 4. (In step 5, the example shows it with an additional
/// gateway. Its text says "set to the result of the previous delegate", so the text counts.)
fn hellos_answer() -> Value {
    json!({
        "cniVersion": "1.0.0", "ips": [], "routes": [], "dns": {},
        "pools": [{"name": "local-pool", "subnet": "192.168.0.0/24"}]
    })
}

#[test]
fn when_all_goes_well_each_delegate_gets_the_result_of_the_one_before_it() {
    let (output, recorded) = add("");
    assert_eq!(recorded.len(), 2);
    // Step 3: "with this exact same input".
    recorded[0].is_verbatim("ipam-ds-hello", "ADD");
    // Step 5: "with the prevResult key set to the result of the previous delegate".
    recorded[1].is("ipam-da-world", "ADD", &hellos_answer());
    // Step 7: "returns that exact same result".
    let worlds_answer = fs::read_to_string(repository().join("testdata/delegates/ipam-da-world"))
        .unwrap()
        .split("<<'JSON'\n")
        .nth(1)
        .unwrap()
        .replace("JSON\n", "");
    assert!(output.status.success());
    assert_eq!(output.stdout, worlds_answer);
}

#[test]
fn when_the_first_delegate_fails_it_is_run_with_del_and_the_same_input() {
    let (output, recorded) = add("ipam-ds-hello");
    assert_eq!(recorded.len(), 2);
    recorded[0].is_verbatim("ipam-ds-hello", "ADD");
    recorded[1].is_verbatim("ipam-ds-hello", "DEL");
    // The error names the first delegate. A failure of its DEL changes nothing.
    assert_eq!(
        output.error(),
        json!({
            "cniVersion": "1.0.0", "code": 111,
            "msg": "ipam-ds-hello: no pool today",
            "details": "asked ipam-ds-hello: ADD of example-container eth7 on network example\n\
                        not undone, DEL failed: ipam-ds-hello: no pool today"
        })
    );
}

#[test]
fn when_the_second_delegate_fails_both_are_run_with_del() {
    let (output, recorded) = add("ipam-da-world");
    assert_eq!(recorded.len(), 4);
    recorded[0].is_verbatim("ipam-ds-hello", "ADD");
    recorded[1].is("ipam-da-world", "ADD", &hellos_answer());
    // "the ipam-ds-hello delegate, with the prevResult it gave the ipam-da-world
    // delegate"
    recorded[2].is("ipam-ds-hello", "DEL", &hellos_answer());
    // "the ipam-da-world delegate with the prevResult that DEL returns"
    let mut answer_to_del = hellos_answer();
    answer_to_del["pools"][0]["on"] = json!("DEL");
    recorded[3].is("ipam-da-world", "DEL", &answer_to_del);
    assert_eq!(
        output.error(),
        json!({
            "cniVersion": "1.0.0", "code": 112,
            "msg": "ipam-da-world: no address today",
            "details": "asked ipam-da-world: ADD of example-container eth7 on network example\n\
                        undone by DEL: ipam-ds-hello, ipam-da-world"
        })
    );
}
