//! The chain runs delegates of any kind: their order, `prevResult`, failures.

use harness::{Call, PLUGINS, Sandbox};
use serde_json::json;

#[test]
fn a_delegate_may_succeed_on_del_without_a_result() {
    let sandbox = Sandbox::default()
        .with_script("silent", "exit 0")
        .with_script("chatty", "echo deleted.");
    let config = sandbox.config("1.0.0", &["silent", "chatty"], &json!({}));
    let output = sandbox.run("DEL", &config);
    output.nothing();
    // Its unreadable output causes a warning.
    output.warns(["WARN", "deleted."]);
}

#[test]
fn version_starts_no_delegate() {
    let sandbox = Sandbox::default().with_script("a", ": > ${0%/*}/../ran");
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
    assert!(!sandbox.root().join("ran").exists());
}

#[test]
fn without_cni_command_each_plugin_prints_its_usage() {
    let sandbox = Sandbox::default();
    for name in PLUGINS {
        let path = sandbox.plugins().join(name);
        let output = Call::new(path.clone()).run();
        output.nothing();
        let commit = option_env!("IPAM_DELEGATED_COMMIT").unwrap_or("unknown commit");
        let first = format!("{name} {} ({commit}, normal)", env!("CARGO_PKG_VERSION"));
        assert!(output.stderr.starts_with(&first), "{output:?}");
        output.warns(["0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"]);
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
fn del_without_add_and_twice_succeeds() {
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_ranges("1.0.0");
    sandbox.run("DEL", &config).nothing();
    // No folder is left, either.
    assert!(!sandbox.data_dir().exists());
    sandbox.run("ADD", &config).result();
    for _ in 0..2 {
        sandbox.run("DEL", &config).nothing();
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
fn delegates_that_print_a_lot_before_they_read_do_not_block() {
    // More than a pipe can hold, in both directions and on both streams.
    let sandbox = Sandbox::default().with_script(
        "big",
        "head -c 300000 /dev/zero | tr '\\0' y >&2\n\
         printf '{\"a\":\"'; head -c 300000 /dev/zero | tr '\\0' x; printf '\"}'\ncat > /dev/null",
    );
    let mut config = sandbox.config("1.0.0", &["big"], &json!({}));
    config["padding"] = json!("z".repeat(300_000));
    let output = sandbox.run("ADD", &config);
    assert_eq!(output.result()["a"].as_str().unwrap().len(), 300_000);
    assert_eq!(output.stderr.len(), 300_000);
}

#[test]
fn delegates_need_not_read_stdin() {
    let sandbox = Sandbox::default().with_script("deaf", "exec <&-; echo '{}'");
    let mut config = sandbox.config("1.0.0", &["deaf"], &json!({}));
    config["padding"] = json!("z".repeat(300_000));
    sandbox.run("ADD", &config).result();
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
