//! STATUS of the allocator fails if each ADD would fail, but never because a pool is full.

use std::fs;

use harness::{ALLOCATOR, Call, RULES_CHAIN, Sandbox, needs};
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
    ] {
        call(&sandbox, "ADD", &pools(), &ipam).run().error();
        call(&sandbox, "STATUS", &pools(), &ipam)
            .run()
            .refused(code, word);
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
        run(none).refused(50, "selector");
    }
    let add = call(&sandbox, "ADD", &Value::Null, &json!({})).run();
    add.refused(7, "prevResult.pools is missing");
    // The pools of such a chain may depend on the container.
    run(json!(["ipam-ds-rules", ALLOCATOR])).nothing();
}

#[test]
fn a_node_whose_addresses_are_all_reserved_is_ready() {
    for keys in [
        json!({"subnet": "10.1.0.0/24", "requested-ip": "10.1.0.9"}),
        json!({"subnet": "10.1.0.0/30"}),
    ] {
        let sandbox = Sandbox::default();
        let pools = json!({ "pools": [keys] });
        let run = |command: &str, container: &str| {
            let call = call(&sandbox, command, &pools, &json!({}));
            call.container(container).run()
        };
        run("STATUS", "").nothing();
        run("ADD", "c1").result();
        assert!([11, 111].contains(&run("ADD", "c2").code()));
        run("STATUS", "").nothing();
    }
}

#[test]
fn a_pool_that_can_give_no_address_is_told_before_an_add() {
    let sandbox = Sandbox::default();
    let run =
        |command: &str, prev_result: &Value| call(&sandbox, command, prev_result, &json!({})).run();
    let excluded = json!({"subnet": "10.1.0.0/24", "exclude": ["10.1.0.0/24"]});
    for (pool, code) in [(&excluded, 50), (&json!({"name": "lan"}), 7)] {
        let pools = json!({ "pools": [pool] });
        run("ADD", &pools).error();
        assert_eq!(run("STATUS", &pools).code(), code, "{pool}");
        // One alternative is enough.
        let one = json!({"alternatives": [[pool], [{"subnet": "10.1.0.0/24"}]]});
        run("STATUS", &one).nothing();
        assert_eq!(
            run("STATUS", &json!({"alternatives": [[pool], [pool]]})).code(),
            code
        );
    }
    let requested =
        json!({"subnet": "10.1.0.0/24", "exclude": ["10.1.0.0/24"], "requested-ip": "10.1.0.9"});
    run("STATUS", &json!({ "pools": [requested] })).nothing();
}

#[test]
fn a_directory_that_is_not_used_makes_no_node_unready() {
    let sandbox = Sandbox::default();
    let rules = json!({"pools": {"web": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["web"]}]});
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &rules);
    fs::create_dir(sandbox.data_dir()).unwrap();
    fs::write(sandbox.data_dir().join("testnet"), "").unwrap();
    sandbox.run_for("STATUS", "", &config).nothing();
    sandbox.run("ADD", &config).result();
}

#[test]
fn a_space_that_each_rule_leads_to_has_to_be_usable() {
    let sandbox = Sandbox::default();
    let mut rules = json!({
        "pools": {
            "web": {"subnet": "10.1.0.0/24", "space": "broken"},
            "rest": {"subnet": "10.2.0.0/24"},
        },
        "rules": [{"pools": ["web"]}],
    });
    fs::create_dir(sandbox.data_dir()).unwrap();
    fs::write(sandbox.data_dir().join("broken"), "").unwrap();
    let code = |rules: &Value, command: &str| {
        let config = sandbox.config("1.1.0", &RULES_CHAIN, rules);
        sandbox.run(command, &config).code()
    };
    assert_eq!((code(&rules, "ADD"), code(&rules, "STATUS")), (5, 50));
    rules["rules"] = json!([{"when": {"A": "1"}, "pools": ["web"]}, {"pools": ["rest"]}]);
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &rules);
    sandbox.run_for("STATUS", "", &config).nothing();
}

#[test]
fn two_selectors_of_one_address_and_two_allocators_in_a_row_are_told_before_an_add() {
    let sandbox = Sandbox::default();
    let ipam = json!({
        "ranges": [[{"subnet": "10.1.0.0/24"}]],
        "pools": {"web": {"subnet": "10.1.0.0/24"}},
        "rules": [{"pools": ["web"]}],
    });
    for delegates in [
        &["ipam-ds-rules", "ipam-ds-ranges", ALLOCATOR][..],
        &["ipam-ds-ranges", ALLOCATOR, ALLOCATOR],
    ] {
        let config = sandbox.config("1.1.0", delegates, &ipam);
        sandbox.run("ADD", &config).error();
        sandbox.run_for("STATUS", "", &config).error();
    }
}

#[test]
fn a_selector_whose_pools_depend_on_the_container_needs_the_directory_of_named_pools() {
    let sandbox = Sandbox::default();
    let rules = json!({"pools": {"web": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["web"]}]});
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &rules);
    let code = |command: &str| sandbox.run(command, &config).code();
    sandbox.run_for("STATUS", "", &config).nothing();
    let directory = sandbox.data_dir().join("pools");
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "").unwrap();
    assert_eq!((code("ADD"), code("STATUS")), (5, 50));
}

#[test]
fn a_file_system_without_hard_links_is_refused_by_name_and_not_ready() {
    needs!("trace");
    let sandbox = Sandbox::default();
    call(&sandbox, "ADD", &pools(), &json!({})).run().result();
    for error in ["EPERM", "EOPNOTSUPP", "ENOSYS"] {
        let inject = format!("inject=linkat:error={error}");
        let run = |command: &str| {
            let call = call(&sandbox, command, &pools(), &json!({}));
            call.container("c2").injected(&inject).run().error()
        };
        for (command, code) in [("ADD", 5), ("STATUS", 50)] {
            let refused = run(command);
            assert_eq!(refused["code"], code, "{error}: {refused}");
            let msg = refused["msg"].as_str().unwrap();
            assert!(msg.ends_with("the file system has no hard links"), "{msg}");
        }
        let files = fs::read_dir(sandbox.data_dir().join("testnet")).unwrap();
        assert_eq!(files.count(), 3, "reservation, rotation, lock");
    }
}

#[test]
fn an_address_is_found_in_a_full_pool_without_reading_a_file() {
    needs!("trace");
    let sandbox = Sandbox::default();
    let pools = json!({"pools": [{"subnet": "10.1.0.0/21"}]});
    let directory = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    for n in 2..2047 {
        let ip = format!("10.1.{}.{}", n / 256, n % 256);
        fs::write(directory.join(ip), "c\r\neth0").unwrap();
    }
    let trace = sandbox.root().join("trace");
    let run = |command: &str| {
        let call = call(&sandbox, command, &pools, &json!({}));
        let output = call
            .container("new")
            .traced(&trace, &["-e", "trace=openat"])
            .run();
        let trace = fs::read_to_string(&trace).unwrap();
        assert_eq!(trace.matches("\"10.1.").count(), 0, "{trace}");
        output
    };
    assert_eq!(run("ADD").code(), 11);
    // A crash has left an empty file.
    fs::write(directory.join("10.1.6.7"), "").unwrap();
    assert_eq!(run("ADD").ips(), ["10.1.6.7"]);
    fs::remove_file(directory.join("10.1.7.8")).unwrap();
    assert_eq!(run("ADD").ips(), ["10.1.7.8"]);
    assert_eq!(run("ADD").code(), 11);
}
