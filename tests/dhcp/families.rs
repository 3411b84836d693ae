//! Leases of DHCP and DHCPv6 through the chain, behind the reference's `bridge`.

use std::thread;
use std::time::Duration;

use harness::waiting::wait_for;
use harness::{DNSMASQ, needs};
use serde_json::json;

use crate::lan::{Lan, V4};

const V6: &str = "--dhcp-range=fd00:1::100,fd00:1::200,64,10m";

#[test]
fn a_lease_of_dhcp_is_taken_checked_and_released() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(V4);
    let name = json!([{"option": "host-name", "fromArg": "containerID"}]);
    let mut config = lan.config(&json!({"provide": name}));
    lan.node.sh("ip netns add c1");
    let added = lan.call("ADD", "c1", &config);
    let (ip, result) = (added.ips().remove(0), added.result());
    assert!(ip.starts_with("10.1.0."), "{result}");
    assert_eq!(result["ips"][0]["gateway"], "10.1.0.1");
    assert_eq!(result["routes"][0]["dst"], "0.0.0.0/0");
    assert!(lan.addresses("c1").contains(&format!("{ip}/24")));
    // dnsmasq has the client ID and the name.
    let id = b"\0lan/eth0/c1".map(|byte| format!("{byte:02x}")).join(":");
    let line = format!("{ip} c1 {id}");
    wait_for(|| lan.text("leases").contains(&line));
    let record = lan.record("c1");
    for text in [
        r#""lease":[{"address":"10.1.0."#,
        r#""server":"10.1.0.1""#,
        r#""nameservers":["10.1.0.2"],"search":["a.example","b.example"]"#,
        r#""gw":"10.1.0.1","mtu":1400"#,
    ] {
        assert!(record.contains(text), "{text} in {record}");
    }

    config["prevResult"] = result;
    let before = lan.count("DHCPACK");
    lan.call("CHECK", "c1", &config).nothing();
    assert_eq!(lan.count("DHCPACK"), before + 1);
    lan.node.sh("ip -n c1 addr flush dev eth0");
    let gone = lan.call_chain("CHECK", "c1", &config);
    gone.refused(112, "is not at the interface");

    lan.call_chain("DEL", "c1", &config).nothing();
    wait_for(|| !lan.text("leases").contains(&ip));
    assert!(lan.record("c1").is_empty());
    lan.call("DEL", "c1", &config).nothing();
}

#[test]
fn both_families_are_leased_at_once_and_released() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(&[V4, &[V6, "--enable-ra"]].concat());
    let mut config = lan.config(&json!({"dhcp": {"families": ["4", "6"]}}));
    lan.node.sh("ip netns add c1");
    let added = lan.call("ADD", "c1", &config);
    let ips = added.ips();
    assert!(ips[0].starts_with("10.1.0.") && ips[1].starts_with("fd00:1::1"));
    assert_eq!(
        added.result()["ips"][1]["address"],
        format!("{}/128", ips[1])
    );
    config["prevResult"] = added.result();
    lan.call("CHECK", "c1", &config).nothing();
    lan.call_chain("DEL", "c1", &config).nothing();
    wait_for(|| ips.iter().all(|ip| !lan.text("leases").contains(ip)));
}

#[test]
fn a_workload_keeps_its_lease_and_a_container_does_not() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(V4);
    let pools = json!([{"name": "lan", "sticky": "shop/db-0"}]);
    let delegates = ["ipam-ds-static", "ipam-da-dhcp"];
    let sticky = lan.config_of(&delegates, &json!({ "pools": pools }));
    let first = lan.add("c1", &sticky);
    lan.call_chain("DEL", "c1", &sticky).nothing();
    assert_eq!(lan.count("DHCPRELEASE"), 0);
    // Another container of the workload, on any node.
    assert_eq!(lan.add("c2", &sticky), first);
    assert_ne!(lan.add("c3", &lan.config(&json!({}))), first);
}

#[test]
fn dhcpv6_waits_for_a_carrier_that_comes_late() {
    needs!("root", "host-device", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(&[V6, "--enable-ra"]);
    lan.node.sh("ip link add up0 type veth peer name up0-lan
         ip link set up0-lan master lan0
         ip netns add c1
         ip -n c1 link set lo up");
    let of = |timeout: u8| {
        let mut config = lan.config(&json!({"dhcp": {"families": ["6"], "timeout": timeout}}));
        config["type"] = json!("host-device");
        config["device"] = json!("up0");
        config
    };
    lan.call("ADD", "c1", &of(1))
        .refused(11, "no DHCP server answers");
    lan.call("DEL", "c1", &of(1)).nothing();
    let config = of(10);
    let added = thread::scope(|scope| {
        let add = scope.spawn(|| lan.call("ADD", "c1", &config));
        wait_for(|| {
            let up = "ip -n c1 link show dev eth0 up";
            lan.node.succeeds(up) && !lan.node.sh(up).is_empty()
        });
        // By then a client has tried to send.
        thread::sleep(Duration::from_secs(1));
        lan.node.sh("ip link set up0-lan up");
        add.join().unwrap()
    });
    assert!(added.ips()[0].starts_with("fd00:1::1"));
}
