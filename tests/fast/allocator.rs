//! `ipam-da-host-local` without a chain: it reserves addresses of given pools in files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use harness::{ALLOCATOR, Flavour, Sandbox};
use serde_json::{Value, json};

/// The address that the container gets.
#[track_caller]
fn add(sandbox: &Sandbox, container: &str, pools: &Value) -> String {
    sandbox
        .allocator_call("ADD", container, pools)
        .run()
        .ips()
        .join(" ")
}

fn gc(sandbox: &Sandbox, pools: &Value, valid: &[&str]) -> harness::Output {
    let mut config = sandbox.allocator_config(pools);
    let valid: Vec<Value> = valid
        .iter()
        .map(|id| json!({"containerID": id, "ifname": "eth0"}))
        .collect();
    config["cni.dev/valid-attachments"] = json!(valid);
    sandbox.call(ALLOCATOR, "GC", &config).run()
}

#[test]
fn the_files_are_those_of_host_local_whatever_the_umask() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "10.1.0.0/24"}, {"subnet": "fd00:1::/64"}]);
    let call = sandbox.allocator_call("ADD", "c1", &pools);
    let call = call.through(&["sh", "-c", "umask 0; exec \"$0\""]);
    assert_eq!(call.run().ips(), ["10.1.0.2", "fd00:1::2"]);
    let directory = sandbox.data_dir().join("testnet");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode(&sandbox.data_dir()), mode(&directory)),
        (0o755, 0o755)
    );
    let mut files: Vec<(String, String, u32)> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let path = entry.path();
            (name, fs::read_to_string(&path).unwrap(), mode(&path))
        })
        .collect();
    files.sort();
    let file = |name: &str, content: &str, mode| (name.to_owned(), content.to_owned(), mode);
    assert_eq!(
        files,
        [
            file("10.1.0.2", "c1\r\neth0", 0o600),
            file("fd00:1::2", "c1\r\neth0", 0o600),
            file("last_reserved_ip.0", "10.1.0.2", 0o600),
            file("last_reserved_ip.1", "fd00:1::2", 0o600),
            file("lock", "", 0o750),
        ]
    );
}

#[test]
fn the_answer_is_completed_after_what_was_there() {
    let sandbox = Sandbox::default();
    let resolv_conf = sandbox.root().join("resolv.conf");
    fs::write(
        &resolv_conf,
        "nameserver 10.0.0.53\nsearch b.example\noptions rotate\ndomain two\n",
    )
    .unwrap();
    let pools = json!([{"subnet": "10.1.0.0/24", "gateway": "10.1.0.9"}]);
    let mut config = sandbox.allocator_config(&pools);
    config["ipam"]["routes"] =
        json!([{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.1.0.8", "mtu": 1400}]);
    config["ipam"]["resolvConf"] = json!(resolv_conf);
    let before = json!({
        "interfaces": [],
        "ips": [{"address": "192.0.2.5/24"}],
        "routes": [{"dst": "192.0.2.0/24"}],
        "dns": {"nameservers": ["192.0.2.53"], "domain": "one"},
        "job": 17
    });
    for (key, value) in before.as_object().unwrap() {
        config["prevResult"][key] = value.clone();
    }
    assert_eq!(
        sandbox.call(ALLOCATOR, "ADD", &config).run().result(),
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [],
            "ips": [
                {"address": "192.0.2.5/24"},
                {"address": "10.1.0.1/24", "gateway": "10.1.0.9"}
            ],
            "routes": [
                {"dst": "192.0.2.0/24"},
                {"dst": "0.0.0.0/0"},
                {"dst": "10.0.0.0/8", "gw": "10.1.0.8", "mtu": 1400}
            ],
            "dns": {
                "nameservers": ["192.0.2.53", "10.0.0.53"], "domain": "one",
                "search": ["b.example"], "options": ["rotate"]
            },
            "job": 17
        })
    );
}

#[test]
fn a_second_add_for_an_address_that_the_attachment_has_is_refused() {
    let sandbox = Sandbox::default();
    let requested = json!([{"subnet": "10.1.0.0/24", "requested-ip": "10.1.0.9"}]);
    add(&sandbox, "c1", &requested);
    let call = || sandbox.allocator_call("ADD", "c1", &requested);
    call().run().refused(110, "c1 eth0 has 10.1.0.9");
    // For another interface, it is taken.
    assert_eq!(call().env("CNI_IFNAME", "eth1").run().code(), 111);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.9"]);
}

#[test]
fn a_requested_address_is_given_or_none() {
    let sandbox = Sandbox::default();
    let pools = |ip: &str| json!([{"subnet": "10.1.0.0/24", "requested-ip": ip}]);
    assert_eq!(add(&sandbox, "c1", &pools("10.1.0.77")), "10.1.0.77");
    let taken = sandbox.allocator_call("ADD", "c2", &pools("10.1.0.77"));
    let holder = "10.1.0.77, requested of pool 0 of network testnet (10.1.0.1-10.1.0.254), is \
                  reserved already to c1 eth0";
    taken.run().refused(111, holder);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.77"]);
    // A requested address leaves the rotation where it is.
    assert_eq!(
        add(&sandbox, "c2", &json!([{"subnet": "10.1.0.0/24"}])),
        "10.1.0.2"
    );
}

#[test]
fn a_full_pool_is_named_with_its_size_and_the_addresses_of_other_pools_are_released() {
    let sandbox = Sandbox::default();
    let pools = json!([
        {"subnet": "10.1.0.0/24"},
        {"name": "blue", "ranges": [{"subnet": "10.2.0.0/30"}, {"subnet": "10.3.0.0/30", "gateway": "10.9.9.9"}]}
    ]);
    for (container, ips) in [
        ("a", "10.1.0.2 10.2.0.2"),
        ("b", "10.1.0.3 10.3.0.1"),
        ("c", "10.1.0.4 10.3.0.2"),
    ] {
        assert_eq!(add(&sandbox, container, &pools), ips);
    }
    let told =
        "pool blue (10.2.0.1-10.2.0.2,10.3.0.1-10.3.0.2) has no address left: all 3 are reserved";
    let refused = sandbox.allocator_call("ADD", "d", &pools).run();
    refused.error_is(11, told);
    assert_eq!(
        sandbox.reserved("testnet"),
        ["10.1.0.2", "10.1.0.3", "10.1.0.4"]
    );

    // Kubernetes evicts the pods of a node that isn't ready.
    let status = sandbox.allocator_call("STATUS", "-", &pools).run();
    status.nothing();
    sandbox.allocator_call("DEL", "b", &pools).run().nothing();
    // The refused ADD advanced the rotation of the first pool.
    assert_eq!(add(&sandbox, "d", &pools), "10.1.0.6 10.3.0.1");
}

#[test]
fn a_reserved_gateway_doesnt_count_as_an_address_of_the_pool() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "10.1.0.0/30"}]);
    fs::create_dir_all(sandbox.data_dir().join("testnet")).unwrap();
    fs::write(sandbox.data_dir().join("testnet/10.1.0.1"), "router").unwrap();
    assert_eq!(add(&sandbox, "a", &pools), "10.1.0.2");
    let full = sandbox.allocator_call("ADD", "b", &pools).run();
    full.refused(11, "all 1 are reserved");
}

#[test]
fn check_compares_with_the_files() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "10.1.0.0/24"}, {"subnet": "fd00:1::/64"}]);
    add(&sandbox, "c1", &pools);
    let check = |container: &str, ips: &[&str]| {
        let mut config = sandbox.allocator_config(&pools);
        let ips: Vec<Value> = ips.iter().map(|ip| json!({ "address": ip })).collect();
        config["prevResult"]["ips"] = json!(ips);
        sandbox
            .call(ALLOCATOR, "CHECK", &config)
            .container(container)
            .run()
    };
    check("c1", &["10.1.0.2/24", "fd00:1::2/64"]).nothing();
    // An address in none of the pools is ignored.
    check("c1", &["192.0.2.1/24", "10.1.0.2/24"]).nothing();
    for (container, ips, word) in [
        (
            "c1",
            &["10.1.0.2/24", "fd00:1::3/64"][..],
            "fd00:1::3 should be reserved to c1 eth0",
        ),
        ("c2", &["10.1.0.2/24"], "is reserved to c1 eth0"),
        ("c2", &[], "no address is reserved to c2 eth0"),
    ] {
        check(container, ips).refused(112, word);
    }
    let mut config = sandbox.allocator_config(&pools);
    config.as_object_mut().unwrap().remove("prevResult");
    assert_eq!(sandbox.call(ALLOCATOR, "CHECK", &config).run().code(), 7);
}

#[test]
fn old_reservations_without_an_interface_are_understood() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "10.1.0.0/24"}]);
    fs::create_dir_all(sandbox.data_dir().join("testnet")).unwrap();
    let file = sandbox.data_dir().join("testnet/10.1.0.2");
    fs::write(&file, "c1").unwrap();
    gc(&sandbox, &pools, &["c1"]).nothing();
    assert!(file.exists());
    sandbox.allocator_call("DEL", "c1", &pools).run().nothing();
    assert!(!file.exists());
    fs::write(&file, "c1").unwrap();
    gc(&sandbox, &pools, &["c2"]).nothing();
    assert!(!file.exists());
}

#[test]
fn gc_keeps_valid_attachments_and_what_is_no_reservation() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "10.1.0.0/24"}]);
    for container in ["a", "b", "c"] {
        add(&sandbox, container, &pools);
    }
    let directory = sandbox.data_dir().join("testnet");
    for (name, content) in [
        ("10.1.0.10", "garbage of some kind"),
        ("fd00::1", "x\r\neth0"),
        ("README", "a\r\neth0"),
        ("10.1.0", "a\r\neth0"),
    ] {
        fs::write(directory.join(name), content).unwrap();
    }
    gc(&sandbox, &pools, &["b", "unknown"]).nothing();
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
    for name in ["README", "10.1.0", "lock", "last_reserved_ip.0"] {
        assert!(directory.join(name).exists(), "{name}");
    }
    // Without a list, nothing is known; with an empty one, no attachment is valid.
    let mut unlisted = sandbox.allocator_config(&pools);
    let keys = unlisted.as_object_mut().unwrap();
    keys.remove("cni.dev/valid-attachments");
    let refused = sandbox.call(ALLOCATOR, "GC", &unlisted).run();
    refused.refused(7, "cni.dev/valid-attachments");
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
    gc(&sandbox, &pools, &[]).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_reservation_that_cant_be_read_is_left_alone() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "10.1.0.0/24"}]);
    let directory = sandbox.data_dir().join("testnet/10.1.0.2");
    fs::create_dir_all(&directory).unwrap();
    assert_eq!(add(&sandbox, "c1", &pools), "10.1.0.3");
    gc(&sandbox, &pools, &[]).nothing();
    assert!(directory.exists());
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
}

#[test]
fn del_logs_how_many_addresses_it_released_and_is_silent_on_stderr() {
    let sandbox = Sandbox::new(Flavour::Verbose);
    let pools = json!([{"subnet": "10.1.0.0/24"}, {"subnet": "10.2.0.0/24"}]);
    let id = "0123456789abcdef0123456789abcdef";
    add(&sandbox, id, &pools);
    let released = |container: &str| {
        let output = sandbox.allocator_call("DEL", container, &pools).run();
        output.nothing();
        assert!(output.stderr.is_empty(), "{output:?}");
        let log = sandbox.log("ipam-da-host-local");
        let line = log.lines().rfind(|line| line.contains("released in all"));
        let (_, count) = line.unwrap().rsplit_once("addresses=").unwrap();
        count.to_owned()
    };
    // podman prints the short ID, which would be another container.
    assert_eq!(released(&id[..12]), "0");
    assert_eq!(released(id), "2");
    assert_eq!(released(id), "0");
}

#[test]
fn ipv6_addresses_that_embed_ipv4_ones_are_ipv6() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "::fffe:0:0/95"}, {"subnet": "0.0.0.0/29"}]);
    let directory = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("last_reserved_ip.0"), "::ffff:0.0.0.1").unwrap();
    let run =
        |command: &str, container: &str| sandbox.allocator_call(command, container, &pools).run();
    assert_eq!(run("ADD", "c1").ips(), ["::ffff:0.0.0.2", "0.0.0.2"]);
    assert_eq!(run("ADD", "c2").ips(), ["::ffff:0.0.0.3", "0.0.0.3"]);
    run("DEL", "c1").nothing();
    assert_eq!(sandbox.reserved("testnet"), ["0.0.0.3", "::ffff:0.0.0.3"]);
    let mut config = sandbox.config("1.1.0", &[], &json!({}));
    let ips = json!([{"address": "::ffff:0.0.0.3/95"}, {"address": "0.0.0.3/29"}]);
    config["prevResult"] = json!({"pools": pools, "ips": ips});
    let check = |container: &str| {
        sandbox
            .call(ALLOCATOR, "CHECK", &config)
            .container(container)
            .run()
    };
    check("c2").nothing();
    assert_eq!(check("c1").code(), 112);
}
