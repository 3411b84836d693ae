//! The chain runs delegates of any kind: their order, `prevResult`, failures.

use std::fs;

use harness::{Call, PLUGINS, Sandbox};
use serde_json::{Value, json};

/// A delegate that appends its calls and their `prevResult` to the file `calls` beside the
/// plugins, and then runs `body`.
fn noting(sandbox: Sandbox, name: &str, body: &str) -> Sandbox {
    let calls = sandbox.root().join("calls");
    let script = format!(
        "in=$(cat)\n\
         prev=$(printf '%s' \"$in\" | sed -n 's/.*\"prevResult\":\\({{[^}}]*}}\\).*/\\1/p')\n\
         echo \"$CNI_COMMAND {name} ${{prev:--}}\" >> {}\n{body}",
        calls.display()
    );
    sandbox.with_script(name, &script)
}

fn calls(sandbox: &Sandbox) -> Vec<String> {
    let calls = fs::read_to_string(sandbox.root().join("calls")).unwrap_or_default();
    calls.lines().map(Into::into).collect()
}

#[test]
fn del_runs_every_delegate_and_threads_what_some_print() {
    let sandbox = noting(
        Sandbox::default(),
        "prints",
        "echo '{\"from\": \"prints\"}'",
    );
    let sandbox = noting(sandbox, "fails", "exit 1");
    let sandbox = noting(sandbox, "silent", "exit 0");
    let mut config = sandbox.config(
        "1.0.0",
        &["silent", "fails", "prints", "silent"],
        &json!({}),
    );
    config["prevResult"] = json!({"from": "runtime"});
    let error = sandbox.call("ipam-delegated", "DEL", &config).run().error();
    assert_eq!(
        calls(&sandbox),
        [
            r#"DEL silent {"from":"runtime"}"#,
            r#"DEL fails {"from":"runtime"}"#,
            r#"DEL prints {"from":"runtime"}"#,
            r#"DEL silent {"from": "prints"}"#,
        ]
    );
    assert_eq!(error["code"], 103);
    assert!(
        error["msg"].as_str().unwrap().starts_with("fails: "),
        "{error}"
    );
}

#[test]
fn a_delegate_may_succeed_on_del_without_a_result() {
    let sandbox = Sandbox::default()
        .with_script("silent", "exit 0")
        .with_script("chatty", "echo deleted.");
    let config = sandbox.config("1.0.0", &["silent", "chatty"], &json!({}));
    let output = sandbox.call("ipam-delegated", "DEL", &config).run();
    output.nothing();
    // Its unreadable output causes a warning.
    assert!(
        output.stderr.contains("WARN") && output.stderr.contains("deleted."),
        "{output:?}"
    );
}

#[test]
fn check_and_status_stop_at_the_first_error() {
    for (command, asked) in [
        ("CHECK", "asked b: CHECK of c1 eth0 on network testnet"),
        ("STATUS", "asked b: STATUS on network testnet"),
    ] {
        let sandbox = noting(Sandbox::default(), "a", "exit 0");
        let sandbox = noting(
            sandbox,
            "b",
            "echo '{\"code\":51,\"msg\":\"gone\",\"details\":\"d\"}'; exit 1",
        );
        let sandbox = noting(sandbox, "c", "exit 0");
        let mut config = sandbox.config("1.1.0", &["a", "b", "c"], &json!({}));
        config["prevResult"] = json!({"ips": []});
        let error = sandbox
            .call("ipam-delegated", command, &config)
            .run()
            .error();
        let given = r#"{"ips":[]}"#;
        assert_eq!(
            calls(&sandbox),
            [
                format!("{command} a {given}"),
                format!("{command} b {given}")
            ]
        );
        assert_eq!(
            error,
            json!({
                "cniVersion": "1.1.0", "code": 51, "msg": "b: gone",
                "details": asked.to_owned() + "\nd"
            })
        );
    }
}

#[test]
fn gc_goes_on_and_hands_the_valid_attachments_on_untouched() {
    let sandbox = Sandbox::default()
        .with_script("fails", "exit 1")
        .with_script("keeps", "cat > ${0%/*}/../stdin");
    let mut config = sandbox.config("1.1.0", &["fails", "keeps", "fails"], &json!({}));
    config["cni.dev/valid-attachments"] =
        json!([{"containerID": "c9", "ifname": "eth0", "extra": 1}]);
    let stdin = serde_json::to_vec(&config).unwrap();
    let error = sandbox.call("ipam-delegated", "GC", &config).run().error();
    assert_eq!(fs::read(sandbox.root().join("stdin")).unwrap(), stdin);
    let of_both = |key: &str| error[key].as_str().unwrap().matches("fails: ").count();
    assert_eq!((of_both("msg"), of_both("details")), (1, 2), "{error}");
}

#[test]
fn version_starts_no_delegate() {
    let sandbox = noting(Sandbox::default(), "a", "exit 0");
    let config = sandbox.config("1.0.0", &["a"], &json!({}));
    for (stdin, version) in [
        (serde_json::to_vec(&config).unwrap(), "1.0.0"),
        (br#"{"cniVersion":"9.9.9"}"#.to_vec(), "9.9.9"),
        (Vec::new(), "1.1.0"),
        (b"not JSON".to_vec(), "1.1.0"),
    ] {
        let output = Call::new(sandbox.plugins().join("ipam-delegated"))
            .env("CNI_COMMAND", "VERSION")
            .stdin(stdin)
            .run();
        assert_eq!(
            output.result(),
            json!({
                "cniVersion": version,
                "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
            })
        );
    }
    assert!(calls(&sandbox).is_empty());
}

#[test]
fn without_cni_command_each_plugin_prints_its_usage() {
    let sandbox = Sandbox::default();
    for name in PLUGINS {
        let path = sandbox.plugins().join(name);
        let output = Call::new(path.clone()).run();
        output.nothing();
        let first = format!(
            "{name} {} (unknown commit, normal)",
            env!("CARGO_PKG_VERSION")
        );
        assert!(output.stderr.starts_with(&first), "{output:?}");
        assert!(
            output.stderr.contains("0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"),
            "{output:?}"
        );
        for (argument, text) in [
            ("--version", format!("{first}\n")),
            ("--help", output.stderr),
        ] {
            let output = std::process::Command::new(&path)
                .arg(argument)
                .output()
                .unwrap();
            assert!(output.status.success());
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}

#[test]
fn a_failed_add_frees_what_was_reserved() {
    let sandbox = Sandbox::default().with_script("fails", "exit 1");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local", "fails"];
    let config = sandbox.config("1.0.0", &delegates, &ipam);
    assert_eq!(
        sandbox.call("ipam-delegated", "ADD", &config).run().code(),
        103
    );
    assert!(sandbox.reserved("testnet").is_empty());
    assert!(sandbox.data_dir().join("testnet").exists());
}

#[test]
fn del_without_add_and_twice_succeeds() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    sandbox
        .call("ipam-delegated", "DEL", &config)
        .run()
        .nothing();
    // No folder is left, either.
    assert!(!sandbox.data_dir().exists());
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .run()
        .result();
    for _ in 0..2 {
        sandbox
            .call("ipam-delegated", "DEL", &config)
            .run()
            .nothing();
        assert!(sandbox.reserved("testnet").is_empty());
    }
    // The namespace in CNI_NETNS may not exist any more.
    sandbox
        .call("ipam-delegated", "DEL", &config)
        .without("CNI_NETNS")
        .run()
        .nothing();
}

#[test]
fn results_have_the_shape_of_the_version() {
    for (version, families) in [
        ("0.3.0", true),
        ("0.3.1", true),
        ("0.4.0", true),
        ("1.0.0", false),
        ("1.1.0", false),
    ] {
        let sandbox = Sandbox::default();
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]});
        let config = sandbox.config(version, &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
        let mut four = json!({"address": "10.1.0.2/24", "gateway": "10.1.0.1"});
        let mut six = json!({"address": "fd00:1::2/64", "gateway": "fd00:1::1"});
        if families {
            four["version"] = json!("4");
            six["version"] = json!("6");
        }
        assert_eq!(
            sandbox
                .call("ipam-delegated", "ADD", &config)
                .run()
                .result(),
            json!({"cniVersion": version, "ips": [four, six], "routes": [], "dns": {}})
        );
    }
}

#[test]
fn a_delegates_stderr_goes_to_stderr() {
    let sandbox =
        Sandbox::default().with_script("complains", "echo the fan is loud >&2; echo '{}'");
    let config = sandbox.config("1.0.0", &["complains"], &json!({}));
    let output = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(output.result(), json!({}));
    assert_eq!(output.stderr, "the fan is loud\n");
}

#[test]
fn delegates_that_print_a_lot_before_they_read_do_not_block() {
    // More than a pipe can hold, in both directions and on both streams.
    let sandbox = Sandbox::default().with_script(
        "big",
        "head -c 300000 /dev/zero | tr '\\0' y >&2\n\
         printf '{\"a\":\"'; head -c 300000 /dev/zero | tr '\\0' x; printf '\"}'\ncat > /dev/null",
    );
    let mut config = sandbox.config("1.0.0", &["big"], &json!({}));
    config["padding"] = json!("z".repeat(300_000));
    let output = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(output.result()["a"].as_str().unwrap().len(), 300_000);
    assert_eq!(output.stderr.len(), 300_000);
}

#[test]
fn delegates_need_not_read_stdin() {
    let sandbox = Sandbox::default().with_script("deaf", "exec <&-; echo '{}'");
    let mut config = sandbox.config("1.0.0", &["deaf"], &json!({}));
    config["padding"] = json!("z".repeat(300_000));
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .run()
        .result();
}

#[test]
fn a_child_that_a_delegate_leaves_behind_is_not_waited_for() {
    let sandbox = Sandbox::default().with_script(
        "leaves",
        "[ $CNI_COMMAND = ADD ] || exit 0\nsleep 1000 &\necho '{\"ips\": []}'",
    );
    let config = sandbox.config("1.0.0", &["leaves"], &json!({}));
    let output = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(output.result(), json!({"ips": []}));
    let del = sandbox.call("ipam-delegated", "DEL", &config);
    del.run().nothing();
    assert_eq!(sandbox.processes().len(), 1);
    harness::kill_all(&sandbox);
}

#[test]
fn a_delegate_runs_from_the_first_folder_that_has_it_and_from_no_other() {
    let sandbox = Sandbox::default().with_script("who", "echo '{\"i\": \"first\"}'");
    let other = Sandbox::default().with_script("who", "echo '{\"i\": \"second\"}'");
    let config = sandbox.config("1.0.0", &["who"], &json!({}));
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    let path = |folders: &[&std::path::Path]| std::env::join_paths(folders).unwrap();
    let (one, two) = (sandbox.plugins(), other.plugins());
    for (folders, who) in [
        (path(&[&one, &two]), "first"),
        (path(&[&two, &one]), "second"),
        (path(&["/nowhere".as_ref(), &two]), "second"),
    ] {
        let output = call.clone().env("CNI_PATH", &folders).run();
        assert_eq!(output.result(), json!({ "i": who }));
        call.clone()
            .env("CNI_COMMAND", "DEL")
            .env("CNI_PATH", folders)
            .run();
    }
    // The PATH variable isn't searched.
    let output = call
        .env("PATH", one.as_os_str())
        .env("CNI_PATH", "/nowhere")
        .run();
    assert_eq!(output.code(), 100);
}

#[test]
fn unknown_keys_reach_every_delegate_as_they_came() {
    let sandbox = Sandbox::default()
        .with_script("first", "cat > /dev/null; echo '{\"ips\":[], \"n\": 1.50}'")
        .with_script("second", "printf '{\"got\":%s}' \"$(cat)\"");
    let config = r#"{"z":12345678901234567890,"cniVersion":"1.0.0","a":1e400,"name":"testnet","prevResult":{"old":true},"ipam":{"type":"ipam-delegated","delegates":["first","second"],"x":0.10,"y":"\u00e9"}}"#;
    let output = sandbox
        .call("ipam-delegated", "ADD", &Value::Null)
        .stdin(config)
        .run();
    assert_eq!(
        output.stdout,
        format!(
            "{{\"got\":{}}}",
            config.replace(r#"{"old":true}"#, r#"{"ips":[], "n": 1.50}"#)
        )
    );
}
