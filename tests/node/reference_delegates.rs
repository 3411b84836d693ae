//! The reference plugins `host-local` and `static` as delegates. They don't know chains, print
//! nothing on DEL and CHECK, and support CNI up to 1.0.0.

use harness::{Sandbox, needs};
use serde_json::json;

#[test]
fn host_local_alone_is_a_whole_chain() {
    needs!("host-local");
    for version in ["0.3.1", "0.4.0", "1.0.0"] {
        let sandbox = Sandbox::default().with_reference("host-local");
        let ipam =
            json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]});
        let mut config = sandbox.config(version, &["host-local"], &ipam);
        let added = sandbox.chain_call("ADD", "c1", &config).run();
        let direct = sandbox
            .call("host-local", "ADD", &config)
            .container("c2")
            .run();
        assert_eq!(added.stdout, direct.stdout.replace("10.1.0.3", "10.1.0.2"));
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2", "10.1.0.3"]);
        config["prevResult"] = added.result();
        if version != "0.3.1" {
            sandbox.chain_call("CHECK", "c1", &config).run().nothing();
            let error = sandbox.chain_call("CHECK", "c9", &config).run().error();
            assert!(
                error["msg"].as_str().unwrap().starts_with("host-local: "),
                "{error}"
            );
        }
        sandbox.chain_call("DEL", "c1", &config).run().nothing();
        sandbox.chain_call("DEL", "c1", &config).run().nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
    }
}

#[test]
fn static_works_as_a_delegate() {
    needs!("static");
    let sandbox = Sandbox::default().with_reference("static");
    let ipam = json!({
        "addresses": [{"address": "10.1.0.7/24", "gateway": "10.1.0.1"}, {"address": "fd00:1::7/64"}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {"nameservers": ["10.1.0.1"]}
    });
    let mut config = sandbox.config("1.0.0", &["static"], &ipam);
    let added = sandbox.chain_call("ADD", "c1", &config).run();
    assert_eq!(added.ips(), ["10.1.0.7", "fd00:1::7"]);
    let direct = sandbox.call("static", "ADD", &config).run();
    assert_eq!(added.stdout, direct.stdout);
    config["prevResult"] = added.result();
    sandbox.chain_call("CHECK", "c1", &config).run().nothing();
    config["prevResult"]["ips"][0]["gateway"] = json!("10.1.0.2");
    let error = sandbox.chain_call("CHECK", "c1", &config).run().error();
    assert!(
        error["msg"].as_str().unwrap().starts_with("static: "),
        "{error}"
    );
    sandbox.chain_call("DEL", "c1", &config).run().nothing();
}
