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
        let added = sandbox.run("ADD", &config);
        let direct = sandbox
            .call("host-local", "ADD", &config)
            .container("c2")
            .run();
        assert_eq!(added.stdout, direct.stdout.replace("10.1.0.3", "10.1.0.2"));
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2", "10.1.0.3"]);
        config["prevResult"] = added.result();
        if version != "0.3.1" {
            sandbox.run("CHECK", &config).nothing();
            let error = sandbox.run_for("CHECK", "c9", &config).error();
            assert!(
                error["msg"].as_str().unwrap().starts_with("host-local: "),
                "{error}"
            );
        }
        sandbox.run("DEL", &config).nothing();
        sandbox.run("DEL", &config).nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
    }
}
