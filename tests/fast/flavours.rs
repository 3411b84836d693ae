//! The two flavours: their output on stderr, and the verbose one's log.

use harness::{Flavour, IPAM_DELEGATED, Output, Sandbox, assert_has};
use serde_json::{Value, json};

/// The plugins that an ADD of these tests runs, each with a log.
const LOGGED: [&str; 3] = [IPAM_DELEGATED, "ipam-ds-ranges", "ipam-da-host-local"];

fn sandbox(flavour: Flavour) -> (Sandbox, Value) {
    let sandbox = Sandbox::new(flavour).with_script(
        "complains",
        "echo the fan is loud >&2; echo and hot >&2; echo '{\"ips\":[]}'",
    );
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["complains", "ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &ipam);
    (sandbox, config)
}

fn add(sandbox: &Sandbox, config: &Value) -> Output {
    sandbox.run_for("ADD", "the-container", config)
}

#[test]
fn the_normal_flavour_says_nothing_when_all_is_well_and_keeps_no_log() {
    let (sandbox, config) = sandbox(Flavour::Normal);
    let output = add(&sandbox, &config);
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert_eq!(output.stderr, "the fan is loud\nand hot\n");
    assert!(!sandbox.log_dir().exists());
}

#[test]
fn the_verbose_flavour_answers_alike_and_logs_everything() {
    let (sandbox, config) = sandbox(Flavour::Verbose);
    let output = add(&sandbox, &config);
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert_eq!(output.stderr, "the fan is loud\nand hot\n");

    for plugin in LOGGED {
        let log = sandbox.log(plugin);
        assert!(log.lines().count() > 2, "{log}");
        let first = log.lines().next().unwrap();
        assert!(first.contains("starting"), "{first}");
        let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
        assert_has(first, [&version, "flavour=\"verbose\" commit=\""]);
        // The lines of one attachment can be selected: all lines but the first are of the call,
        // and each entry is one line.
        for line in log.lines().skip(1) {
            assert!(line.contains("DEBUG"), "{line}");
            assert_has(
                line,
                [
                    "command=ADD",
                    "network=testnet",
                    "container=the-container",
                    "ifname=eth0",
                ],
            );
        }
    }
    let log = sandbox.log("ipam-delegated");
    let input = serde_json::to_string(&config).unwrap();
    let path = sandbox.plugins().join("ipam-ds-ranges");
    for said in [
        // The call, and each delegate's path, input, output and time.
        format!("called args=\"\" netns=\"/run/netns/c1\" input={input}"),
        format!(
            "delegate=ipam-ds-ranges asked=ADD executable={}",
            path.display()
        ),
        "the delegate has succeeded delegate=complains asked=ADD milliseconds=".to_owned(),
        r#"prev_result={"ips":[]}"#.to_owned(),
        r#""dns":{},"pools":[{"ranges":[{"subnet":"10.1.0.0/24"}]}]}"#.to_owned(),
        // A third party's stderr.
        "the delegate writes to stderr delegate=complains stderr=the fan is loud".to_owned(),
        "and hot".to_owned(),
        "delivering the answer output={".to_owned(),
    ] {
        assert!(log.contains(&said), "{said}\n{log}");
    }
}

#[test]
fn errors_and_warnings_go_to_stderr_in_both() {
    for flavour in [Flavour::Normal, Flavour::Verbose] {
        let (sandbox, mut config) = sandbox(flavour);
        config["ipam"]["ranges"] = json!([[{"subnet": "10.1.0.0/31"}]]);
        let output = add(&sandbox, &config);
        assert_eq!(output.code(), 7);
        let line = output.stderr.lines().last().unwrap();
        for word in ["ERROR", "container=the-container", "10.1.0.0/31"] {
            assert!(line.contains(word), "{output:?}");
        }
        assert!(!output.stderr.contains("DEBUG"), "{output:?}");
        if flavour == Flavour::Verbose {
            // One failure is logged as one error.
            for (plugin, errors) in [("ipam-delegated", 1), ("ipam-ds-ranges", 0)] {
                let log = sandbox.log(plugin);
                assert_eq!(log.matches("ERROR").count(), errors, "{log}");
                assert!(log.contains("10.1.0.0/31"), "{log}");
            }
        }
    }
}

/// The logs of all plugins of the chain.
fn logs(sandbox: &Sandbox) -> String {
    LOGGED.map(|plugin| sandbox.log(plugin)).concat()
}

#[test]
fn each_input_and_each_output_is_logged_once() {
    let (sandbox, mut config) = sandbox(Flavour::Verbose);
    config["ipam"]["mark"] = json!("in-the-configuration");
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .env(
            "CNI_ARGS",
            "K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-1;IgnoreUnknown=1",
        )
        .run()
        .result();
    let logs = logs(&sandbox);
    for (text, what) in [
        ("in-the-configuration", "the configuration"),
        (r#""pools":[{"#, "the selector's output"),
        (r#""address":"10.1.0.2/24""#, "the allocator's output"),
        ("IgnoreUnknown=1", "CNI_ARGS"),
        ("netns=\"/run/netns/c1\"", "CNI_NETNS"),
    ] {
        assert_eq!(logs.matches(text).count(), 1, "{what}: {logs}");
    }
    // The line with the pod's name and the one with its address are of one trace.
    let trace_of = |text: &str| {
        let line = logs.lines().find(|line| line.contains(text)).unwrap();
        line.split(" trace=").nth(1).unwrap()[..32].to_owned()
    };
    assert_eq!(trace_of("web-1"), trace_of("10.1.0.2/24"));
}

#[test]
fn control_characters_in_variables_do_not_reach_stderr() {
    let sandbox = Sandbox::default().with_script("fails", "exit 1");
    let config = sandbox.config("1.0.0", &["fails"], &json!({}));
    let output = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("CNI_IFNAME", "eth\x1b[2J")
        .env("CNI_ARGS", "A=\x07")
        .run();
    assert!(!output.status.success());
    assert!(!output.stderr.contains(['\x1b', '\x07']), "{output:?}");
    output.warns(["eth\\u{1b}[2J"]);
}
