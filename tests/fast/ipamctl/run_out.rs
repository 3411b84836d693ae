//! The commands of docs/operations.md on a node whose pool is full, of a chain and of host-local.

use std::fs;

use harness::{RANGES_CHAIN, Sandbox, make_old, needs, replay};
use serde_json::json;

use super::{THERE, add};

/// The containers that the runtime has.
const VALID: [&str; 3] = [
    "8f3e52c1a0b9d7e6f5c4b3a2918070605f4e3d2c1b0a99887766554433221100",
    "1c9d04e7b2a6f8835e7d6c5b4a39281706f5e4d3c2b1a0998877665544332211",
    "6b0c9d8e7f605142a3b4c5d6e7f80910213243546576879809a0b1c2d3e4f506",
];

/// A container that is gone, with a record.
const LOST: &str = "d47a90f3e5c1b28617f6e5d4c3b2a190817263544536271809fafbfcfdfeff00";

/// A container that is gone, without a record.
const LOST_BY_HOST_LOCAL: &str = "9aa0b1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddee";

#[test]
fn a_full_pool_of_a_chain_and_of_host_local_is_walked_to_its_leaks() {
    needs!("host-local");
    let sandbox = Sandbox::default().with_reference("host-local");
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/29"}]]});
    let mut chain = sandbox.config("1.0.0", &RANGES_CHAIN, &ranges);
    chain["name"] = json!("mynet");
    let mut host_local = chain.clone();
    host_local["ipam"]["type"] = json!("host-local");
    // Before the conflist was changed to a chain.
    for container in [VALID[2], LOST_BY_HOST_LOCAL] {
        let call = sandbox.call("host-local", "ADD", &host_local);
        call.container(container).run().result();
    }
    sandbox.write_conflist("10-mynet.conflist", &chain);
    let netns = sandbox.root().join("netns/cni-5d21");
    fs::create_dir(netns.parent().unwrap()).unwrap();
    fs::write(&netns, "").unwrap();
    let gone = netns.to_str().unwrap();
    for (container, netns) in [(VALID[0], THERE), (VALID[1], THERE), (LOST, gone)] {
        add(&sandbox, &chain, container, netns);
        let record = format!("mynet/{container}:eth0.json");
        make_old(&sandbox.state_dir().join(record), 50);
    }
    fs::remove_file(&netns).unwrap();
    for ip in sandbox.reserved("mynet") {
        make_old(&sandbox.data_dir().join("mynet").join(ip), 50);
    }
    let section = "### Of a chain, and of host-local";
    let (page, valid) = ("docs/operations.md", VALID.join("\n"));
    assert_eq!(replay(page, section, &sandbox, &valid, |_| {}), 4);
    for (_, container) in sandbox.reservations("mynet") {
        assert!(
            VALID.iter().any(|valid| container.starts_with(valid)),
            "{container}"
        );
    }
    assert_eq!(sandbox.records("mynet").len(), 2);
    assert_eq!(fs::read_dir(sandbox.state_dir()).unwrap().count(), 1);
}
