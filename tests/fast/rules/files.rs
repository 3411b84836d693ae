//! `poolsDir`, the folder of files with pools and rules.

use std::fs;

use harness::{RULES_CHAIN, Sandbox};
use serde_json::{Value, json};

#[test]
fn each_call_reads_the_files() {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, content: &Value| {
        fs::write(folder.join("new"), content.to_string()).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    };
    let ipam = json!({"poolsDir": folder, "pools": {"own": {"subnet": "10.1.0.0/24"}}});
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &ipam);
    let add = |pod: &str| sandbox.run_for_pod("ADD", &config, "prod", pod);

    add("a").refused(7, "and ipam.poolsDir has no rule: no pool is chosen");

    write("90-rest.json", &json!({"rules": [{"pools": ["own"]}]}));
    write(".hidden.json", &json!("an editor's"));
    write("notes.txt", &json!("of somebody"));
    assert_eq!(add("a").ips(), ["10.1.0.2"]);
    write(
        "10-tenant.json",
        &json!({"pools": {"tenant": {"subnet": "10.2.0.0/24"}},
                "rules": [{"when": {"K8S_POD_NAME": "t-*"}, "pools": ["tenant"]}]}),
    );
    assert_eq!(add("t-1").ips(), ["10.2.0.2"]);
    for (broken, message) in [
        (
            json!({"rules": [{"pools": ["nowhere"]}]}),
            ": rules[0].pools[0]: there is no pool \"nowhere\"",
        ),
        (
            json!({"pools": {"own": {}}}),
            ": pools.own is defined twice, the first time as ipam.pools.own",
        ),
        (
            json!({"pools": {"more": {"subnet": "10.2.0.128/25"}}}),
            ": pools.more: 10.2.0.129-10.2.0.254 overlaps 10.2.0.1-10.2.0.254 of ",
        ),
    ] {
        write("50-broken.json", &broken);
        let file = folder.join("50-broken.json");
        for command in ["ADD", "STATUS"] {
            let error = sandbox.run_for_pod(command, &config, "prod", "b").error();
            let msg = error["msg"].as_str().unwrap().to_owned();
            assert!(
                msg.contains(&format!("{}{message}", file.display())),
                "{command}: {msg}"
            );
        }
        // Addresses of an earlier catalogue can be released.
        sandbox.run_for_pod("DEL", &config, "prod", "a").nothing();
    }
    fs::remove_file(folder.join("50-broken.json")).unwrap();
    sandbox.run_for_pod("STATUS", &config, "", "").nothing();
    assert_eq!(add("t-5").ips(), ["10.2.0.3"]);
}
