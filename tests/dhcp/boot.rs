//! A node's boot: the records are there, and the containers' namespaces aren't.

use harness::{DNSMASQ, needs};
use serde_json::json;

use crate::lan::{Lan, V4};

#[test]
fn after_a_boot_nothing_is_asked_for_and_a_workload_gets_its_lease_again() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(V4);
    let pools = json!([{"name": "lan", "sticky": "shop/db-0"}]);
    let delegates = ["ipam-ds-static", "ipam-da-dhcp"];
    let config = lan.config_of(&delegates, &json!({ "pools": pools }));
    let first = lan.add("c1", &config);
    lan.node.sh("ip netns del c1; ip link del lan0");
    let asked = lan.count("DHCP");
    let looked = lan.renew_once();
    looked.ends(0);
    assert_eq!(lan.count("DHCP"), asked);

    lan.connect();
    lan.call("DEL", "c1", &config).nothing();
    assert!(lan.record("c1").is_empty());
    assert_eq!(lan.add("c2", &config), first);
}
