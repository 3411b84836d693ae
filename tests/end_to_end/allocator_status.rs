//! STATUS of the allocator fails if an ADD would fail.

use std::fs;

use harness::{ALLOCATOR, Call, Sandbox, needs};
use serde_json::{Value, json};

fn call(sandbox: &Sandbox, command: &str, prev_result: &Value, ipam: &Value) -> Call {
    let mut config = sandbox.config("1.1.0", &[ALLOCATOR], ipam);
    config["prevResult"] = prev_result.clone();
    sandbox.call(ALLOCATOR, command, &config)
}

fn pools() -> Value {
    json!({"pools": [{"subnet": "10.1.0.0/24"}]})
}

#[test]
fn an_answer_that_can_not_be_completed_is_told_before_an_add() {
    let sandbox = Sandbox::default();
    for (ipam, code, word) in [
        (
            json!({"resolvConf": "/nowhere/resolv.conf"}),
            50,
            "/nowhere",
        ),
        (json!({"routes": [{"dst": "nowhere"}]}), 7, "nowhere"),
        (json!({"reclaim": "always"}), 7, "always"),
    ] {
        call(&sandbox, "ADD", &pools(), &ipam).run().error();
        let error = call(&sandbox, "STATUS", &pools(), &ipam).run().error();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["msg"].as_str().unwrap().contains(word), "{error}");
    }
    call(&sandbox, "STATUS", &pools(), &json!({}))
        .run()
        .nothing();
}

#[test]
fn an_allocator_without_a_selector_is_not_ready() {
    let sandbox = Sandbox::default();
    let run = |delegates: Value| {
        let ipam = json!({ "delegates": delegates });
        call(&sandbox, "STATUS", &Value::Null, &ipam).run()
    };
    for none in [
        json!([ALLOCATOR]),
        json!([ALLOCATOR, "ipam-ds-rules"]),
        Value::Null,
    ] {
        let error = run(none).error();
        assert_eq!(error["code"], 50, "{error}");
        assert!(
            error["msg"].as_str().unwrap().contains("selector"),
            "{error}"
        );
    }
    // The pools of such a chain may depend on the container.
    run(json!(["ipam-ds-rules", ALLOCATOR])).nothing();
}

#[test]
fn a_requested_address_that_is_reserved_is_not_there_for_an_add() {
    let sandbox = Sandbox::default();
    let pools = json!({"pools": [{"subnet": "10.1.0.0/24", "requested-ip": "10.1.0.9"}]});
    let run = |command: &str| call(&sandbox, command, &pools, &json!({})).run();
    run("STATUS").nothing();
    run("ADD").result();
    assert_eq!(run("STATUS").code(), 50);
    run("DEL").nothing();
    run("STATUS").nothing();
}

#[test]
fn what_is_no_directory_where_one_should_be_is_not_ready() {
    let sandbox = Sandbox::default();
    fs::create_dir(sandbox.data_dir()).unwrap();
    fs::write(sandbox.data_dir().join("testnet"), "").unwrap();
    call(&sandbox, "ADD", &pools(), &json!({})).run().error();
    let status = call(&sandbox, "STATUS", &pools(), &json!({})).run();
    assert_eq!(status.code(), 50);
}

#[test]
fn a_file_system_without_hard_links_serves_an_add() {
    needs!("/usr/bin/strace");
    for error in ["EPERM", "EOPNOTSUPP", "ENOSYS"] {
        let sandbox = Sandbox::default();
        let inject = format!("inject=linkat:error={error}");
        let strace = ["strace", "-o", "/dev/null", "-e", &inject];
        let run = |command: &str, container: &str| {
            let call = call(&sandbox, command, &pools(), &json!({}));
            call.container(container).through(&strace).run()
        };
        assert_eq!(run("ADD", "a").ips(), ["10.1.0.2"], "{error}");
        run("STATUS", "a").nothing();
        assert_eq!(run("ADD", "b").ips(), ["10.1.0.3"], "{error}");
        run("DEL", "a").nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"], "{error}");
        let files = fs::read_dir(sandbox.data_dir().join("testnet")).unwrap();
        assert_eq!(files.count(), 3, "reservation, rotation, lock");
    }
}

#[test]
fn what_no_new_file_can_be_named_in_is_not_ready() {
    needs!("/usr/bin/strace");
    let sandbox = Sandbox::default();
    let inject = "inject=linkat,renameat2:error=EPERM";
    let strace = ["strace", "-o", "/dev/null", "-e", inject];
    let run = |command: &str| call(&sandbox, command, &pools(), &json!({}));
    run("ADD").run().result();
    let add = run("ADD").container("c2").through(&strace).run().error();
    let status = run("STATUS").through(&strace).run().error();
    assert_eq!((&add["code"], &status["code"]), (&json!(5), &json!(50)));
}

#[test]
fn a_full_pool_is_read_once_in_ten_seconds_and_not_at_each_add() {
    needs!("/usr/bin/strace");
    let sandbox = Sandbox::default();
    let pools = json!({"pools": [{"subnet": "10.1.0.0/24"}]});
    let directory = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    for n in 2..255 {
        fs::write(directory.join(format!("10.1.0.{n}")), "c\r\neth0").unwrap();
    }
    let trace = sandbox.root().join("trace");
    let opened = |command: &str| {
        let path = trace.to_str().unwrap();
        let strace = ["strace", "-o", path, "-e", "trace=openat"];
        let call = call(&sandbox, command, &pools, &json!({}));
        call.container("new").through(&strace).run().error();
        let trace = fs::read_to_string(&trace).unwrap();
        trace.matches("\"10.1.0.").count()
    };
    assert_eq!(opened("ADD"), 253);
    // On a loaded machine, more than ten seconds may pass between two calls.
    let again = (0..3).map(|_| opened("ADD") + opened("STATUS")).min();
    assert_eq!(again, Some(0));
}
