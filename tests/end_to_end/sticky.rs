//! Sticky keys: a key gets its last address again, if the address is free.

use std::fs;
use std::os::unix::fs::symlink;

use harness::{Output, Sandbox, needs, reference};
use serde_json::{Value, json};

const CHAIN: [&str; 2] = ["ipam-ds-rules", "ipam-da-host-local"];

fn config(sandbox: &Sandbox, subnet: &str) -> Value {
    let ipam = json!({
        "pools": {"pool": {"subnet": subnet}},
        "rules": [
            {"when": {"NAME": null}, "pools": ["pool"]},
            {"pools": ["pool"], "sticky": "${NAME}"},
        ],
    });
    sandbox.config("1.1.0", &CHAIN, &ipam)
}

/// A call for a container. `name` is its sticky key.
fn run(sandbox: &Sandbox, command: &str, config: &Value, name: Option<&str>, id: &str) -> Output {
    let args = name.map_or(String::new(), |name| format!("NAME={name}"));
    let call = sandbox.call("ipam-delegated", command, config);
    call.container(id).env("CNI_ARGS", args).run()
}

#[test]
fn a_container_that_restarts_in_a_busy_pool_has_its_address_each_time() {
    let sandbox = Sandbox::default();
    let config = config(&sandbox, "10.1.0.0/26");
    // 61 addresses; 49 are reserved.
    for i in 0..48 {
        run(&sandbox, "ADD", &config, None, &format!("busy-{i}")).result();
    }
    let first = run(&sandbox, "ADD", &config, Some("web"), "web-0").ips();
    for i in 1..=100 {
        run(
            &sandbox,
            "DEL",
            &config,
            Some("web"),
            &format!("web-{}", i - 1),
        )
        .nothing();
        // Others start and end meanwhile.
        let (old, new) = (format!("busy-{}", i - 1), format!("busy-{}", i + 47));
        run(&sandbox, "DEL", &config, None, &old).nothing();
        let other = run(&sandbox, "ADD", &config, None, &new).ips();
        if other == first {
            run(&sandbox, "DEL", &config, None, &new).nothing();
            run(&sandbox, "ADD", &config, None, &new).result();
        }
        let again = run(&sandbox, "ADD", &config, Some("web"), &format!("web-{i}")).ips();
        assert_eq!(again, first, "restart {i}");
    }
}

#[test]
fn a_key_whose_address_somebody_else_has_gets_another_one() {
    let sandbox = Sandbox::default();
    let config = config(&sandbox, "10.1.0.0/29");
    assert_eq!(
        run(&sandbox, "ADD", &config, Some("a"), "a").ips(),
        ["10.1.0.2"]
    );
    // A second replica has the same key.
    assert_eq!(
        run(&sandbox, "ADD", &config, Some("a"), "a2").ips(),
        ["10.1.0.3"]
    );
    run(&sandbox, "DEL", &config, Some("a"), "a2").nothing();
    run(&sandbox, "DEL", &config, Some("a"), "a").nothing();
    assert_eq!(
        run(&sandbox, "ADD", &config, Some("a"), "a").ips(),
        ["10.1.0.3"]
    );
}

#[test]
fn what_is_remembered_survives_a_reboot_and_is_no_reservation() {
    needs!("host-local");
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, "10.1.0.0/24");
    config["ipam"]["reclaim"] = json!("boot");
    for name in ["a", "b", "c"] {
        run(&sandbox, "ADD", &config, Some(name), name).result();
    }
    run(&sandbox, "DEL", &config, Some("b"), "b").nothing();
    fs::remove_dir_all(sandbox.cache_dir()).unwrap();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    // After a boot, the reservations are released.
    let proc = sandbox.root().join("proc");
    let id = proc.join("sys/kernel/random");
    fs::create_dir_all(&id).unwrap();
    fs::write(id.join("boot_id"), "another boot\n").unwrap();
    fs::write(proc.join("stat"), "btime 9999999999\n").unwrap();
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    let again = call
        .container("b2")
        .env("CNI_ARGS", "NAME=b")
        .env("IPAM_DELEGATED_PROC", &proc);
    assert_eq!(again.run().ips(), ["10.1.0.3"]);
    assert_eq!(sandbox.reserved("pool"), ["10.1.0.3"]);

    // host-local may give an address that a key remembers, and releases only its own.
    symlink(
        reference("host-local").unwrap(),
        sandbox.plugins().join("host-local"),
    )
    .unwrap();
    let theirs = json!({"cniVersion": "1.0.0", "name": "pool", "ipam": {"type": "host-local",
        "dataDir": sandbox.data_dir(), "ranges": [[{"subnet": "10.1.0.0/24"}]]}});
    let host_local = |command: &str, container: &str| {
        let call = sandbox.call("host-local", command, &theirs);
        call.container(container).run()
    };
    // The pool's rotation continues after 10.1.0.4.
    for expected in ["10.1.0.5", "10.1.0.6"] {
        assert_eq!(host_local("ADD", expected).ips(), [expected]);
    }
    host_local("DEL", "10.1.0.5").nothing();
    assert_eq!(sandbox.reserved("pool"), ["10.1.0.3", "10.1.0.6"]);
    let keys = fs::read_to_string(sandbox.data_dir().join("pool/sticky_keys")).unwrap();
    assert_eq!(
        keys,
        "10.1.0.2 \"a\"\n10.1.0.3 \"b\"\n10.1.0.4 \"c\"\n10.1.0.3 \"b\"\n"
    );
}

#[test]
fn as_many_keys_are_remembered_as_the_pool_has_addresses() {
    let sandbox = Sandbox::default();
    let config = config(&sandbox, "10.1.0.0/29");
    // Five addresses, and many more keys.
    for i in 0..150 {
        let name = format!("k{i}");
        run(&sandbox, "ADD", &config, Some(&name), &name).result();
        run(&sandbox, "DEL", &config, Some(&name), &name).nothing();
    }
    let keys = fs::read_to_string(sandbox.data_dir().join("pool/sticky_keys")).unwrap();
    assert!(keys.lines().count() <= 5 + 64, "{}", keys.lines().count());
    assert!(keys.contains("\"k149\"") && !keys.contains("\"k0\""));
}

#[test]
fn an_address_that_the_key_would_not_be_given_again_is_not_remembered() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, "10.1.0.0/29");
    config["ipam"]["rules"] =
        json!([{"pools": ["pool"], "ip": "10.1.0.3", "sticky": "${containerID}"}]);
    for i in 0..3 {
        let id = format!("c{i}");
        assert_eq!(run(&sandbox, "ADD", &config, None, &id).ips(), ["10.1.0.3"]);
        run(&sandbox, "DEL", &config, None, &id).nothing();
    }
    assert!(!sandbox.data_dir().join("pool/sticky_keys").exists());
}

#[test]
fn a_file_that_can_not_be_used_costs_no_address() {
    let sandbox = Sandbox::default();
    let config = config(&sandbox, "10.1.0.0/24");
    let keys = sandbox.data_dir().join("pool/sticky_keys");
    let victim = sandbox.root().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::create_dir_all(keys.parent().unwrap()).unwrap();
    symlink(&victim, &keys).unwrap();
    let output = run(&sandbox, "ADD", &config, Some("a"), "a");
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(
        output
            .stderr
            .contains("can't remember the address of this key"),
        "{output:?}"
    );
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    fs::remove_file(&keys).unwrap();
    fs::write(
        &keys,
        b"\xff\xfe garbage\n\n \n10.1.0.9 \"b\"\n10.1.0.8 \"b",
    )
    .unwrap();
    assert_eq!(
        run(&sandbox, "ADD", &config, Some("b"), "b").ips(),
        ["10.1.0.9"]
    );
}
