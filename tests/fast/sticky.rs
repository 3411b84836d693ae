//! Sticky keys: a key gets its address again, if the address is free. Nothing is remembered for it. And
//! owners, which remember theirs elsewhere.

use harness::{Output, RULES_CHAIN, Sandbox, names};
use serde_json::{Value, json};

fn config(sandbox: &Sandbox, subnet: &str) -> Value {
    let ipam = json!({
        "pools": {"pool": {"subnet": subnet}},
        "rules": [
            {"when": {"NAME": null}, "pools": ["pool"]},
            {"pools": ["pool"], "sticky": "${NAME}"},
        ],
    });
    sandbox.config("1.1.0", &RULES_CHAIN, &ipam)
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
    let first = run(&sandbox, "ADD", &config, Some("web"), "web-0").ips();
    // 61 addresses; 49 are reserved.
    for i in 0..48 {
        run(&sandbox, "ADD", &config, None, &format!("busy-{i}")).result();
    }
    for i in 1..=20 {
        let id = format!("web-{}", i - 1);
        run(&sandbox, "DEL", &config, Some("web"), &id).nothing();
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
fn a_key_has_the_same_address_in_another_data_dir_and_leaves_the_rotation() {
    let [one, other] = [Sandbox::default(), Sandbox::default()];
    let ips = [&one, &other].map(|sandbox| {
        let config = config(sandbox, "10.1.0.0/24");
        run(sandbox, "ADD", &config, Some("prod/db-0"), "c1").ips()
    });
    assert_eq!(ips[0], ips[1]);
    let config = config(&one, "10.1.0.0/24");
    assert_eq!(run(&one, "ADD", &config, None, "c2").ips(), ["10.1.0.2"]);
    // A reservation, the lock and the rotation of the pool: nothing is there of the key.
    run(&one, "DEL", &config, Some("prod/db-0"), "c1").nothing();
    let files = names(one.data_dir().join("pools"));
    assert_eq!(files, ["10.1.0.2", "last_reserved_ip.pool", "lock"]);
}

/// A node's files know attachments only.
#[test]
fn a_pool_with_an_owner_is_refused_by_name_and_status_says_so_if_each_rule_has_one() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, "10.1.0.0/24");
    let owned = json!({"pools": ["pool"], "owner": "pods/prod/${NAME}"});
    config["ipam"]["rules"] = json!([owned]);
    let why =
        "prevResult.pools[0].owner: ipam-da-host-local keeps no address for \"pods/prod/web\"";
    run(&sandbox, "ADD", &config, Some("web"), "c1").refused(7, why);
    let status = sandbox.run("STATUS", &config);
    assert!(!status.status.success(), "{status:?}");
    status.prints(["owner"]);
    let of_web = json!({"when": {"NAME": "web"}, "pools": ["pool"], "owner": "pods/prod/web"});
    config["ipam"]["rules"] = json!([of_web, {"pools": ["pool"]}]);
    run(&sandbox, "ADD", &config, Some("other"), "c2").result();
    let status = sandbox.run("STATUS", &config);
    status.ends(0);
}
