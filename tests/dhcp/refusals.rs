//! ADDs that get no lease, and what is left of them.

use harness::{DNSMASQ, needs};
use serde_json::json;

use crate::lan::Lan;

#[test]
fn a_refusal_has_the_servers_reason_and_undoes_the_other_family() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(&[
        "--dhcp-range=10.1.0.50,10.1.0.60,10m",
        "--dhcp-range=fd00:1::100,fd00:1::100,64,10m",
    ]);
    let both = lan.config(&json!({"dhcp": {"families": ["4", "6"]}}));
    lan.add("c1", &both);
    lan.node.sh("ip netns add c2");
    let refused = lan.call("ADD", "c2", &both);
    refused.refused(116, "the DHCP server refuses: ");
    refused.refused(116, "NoAddrsAvail");
    assert!(lan.record("c2").is_empty());
    harness::waiting::wait_until_equal(|| lan.count("DHCPRELEASE"), 1);
    assert_eq!(lan.text("leases").matches(" 10.1.0.").count(), 1);
}

#[test]
fn without_a_server_add_is_to_be_tried_later() {
    needs!("root", "bridge");
    let lan = Lan::new();
    let config = lan.config(&json!({"dhcp": {"timeout": 1}}));
    lan.node.sh("ip netns add c1");
    lan.call("ADD", "c1", &config)
        .refused(11, "no DHCP server answers");
    assert!(lan.record("c1").is_empty());
    // DEL succeeds in any case.
    lan.call("DEL", "c1", &config).nothing();
}

#[test]
fn a_pool_that_only_a_chooser_of_addresses_can_honour_is_refused_by_name() {
    needs!("root");
    let lan = Lan::new();
    lan.node.sh("ip netns add c1");
    for (pool, text) in [
        (json!({"name": "a", "owner": "vm"}), "pools[0].owner"),
        (
            json!({"name": "a", "subnet": "10.1.0.0/24"}),
            "pools[0] has ranges",
        ),
    ] {
        let delegates = ["ipam-ds-static", "ipam-da-dhcp"];
        let config = lan.config_of(&delegates, &json!({"pools": [pool]}));
        lan.call_chain("ADD", "c1", &config).refused(7, text);
    }
}
