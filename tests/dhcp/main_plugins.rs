//! Leases behind the reference's other main plugins.

use harness::waiting::wait_until_equal;
use harness::{DNSMASQ, needs, skip};
use serde_json::{Value, json};

use crate::lan::{Lan, V4};

/// Adds a container by this main plugin, renews its lease, and deletes it.
fn lease_is_taken_renewed_and_released(lan: &Lan, keys: &Value) {
    let mut config = lan.config(&json!({}));
    config.as_object_mut().unwrap().remove("bridge");
    let keys = keys.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(keys);
    lan.node.sh("ip netns add c1");
    let added = lan.call("ADD", "c1", &config);
    let ip = added.ips().remove(0);
    assert!(lan.addresses("c1").contains(&format!("{ip}/24")));
    let route = lan.node.sh("ip -n c1 route show default");
    assert!(route.contains("via 10.1.0.1"), "{route}");
    lan.node.sh(&format!(
        "ip -n c1 addr change {ip}/24 dev eth0 valid_lft 200 preferred_lft 200"
    ));
    let renewed = lan.renew_once();
    renewed.ends(0);
    assert!(lan.lifetime("c1").unwrap() > 200);
    config["prevResult"] = added.result();
    lan.call("CHECK", "c1", &config).nothing();
    // They run the DEL of IPAM first, and then remove the interface.
    lan.call("DEL", "c1", &config).nothing();
    wait_until_equal(|| lan.count("DHCPRELEASE"), 1);
    assert!(lan.record("c1").is_empty());
}

#[test]
fn macvlan_and_ipvlan() {
    needs!("root", DNSMASQ);
    for (kind, mode) in [("macvlan", "bridge"), ("ipvlan", "l2")] {
        needs!(kind);
        let lan = Lan::new();
        lan.plug_in("up0");
        if !lan
            .node
            .succeeds(&format!("ip link add x0 link up0 type {kind}"))
        {
            skip(&format!("the kernel has no {kind}"));
            continue;
        }
        lan.node.sh("ip link del x0");
        let _server = lan.dnsmasq(V4);
        let keys = json!({"type": kind, "master": "up0", "mode": mode});
        lease_is_taken_renewed_and_released(&lan, &keys);
    }
}

#[test]
fn host_device() {
    needs!("root", "host-device", DNSMASQ);
    let lan = Lan::new();
    lan.plug_in("up0");
    let _server = lan.dnsmasq(V4);
    lease_is_taken_renewed_and_released(&lan, &json!({"type": "host-device", "device": "up0"}));
}

#[test]
fn ptp_has_no_interface_to_ask_on_and_is_refused_by_name() {
    needs!("root", "ptp");
    let lan = Lan::new();
    let mut config = lan.config(&json!({}));
    config["type"] = json!("ptp");
    lan.node.sh("ip netns add c1");
    lan.call("ADD", "c1", &config)
        .refused(5, "interface eth0: it is not in CNI_NETNS");
    assert!(lan.record("c1").is_empty());
}
