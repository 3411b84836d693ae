//! The reference `dhcp` as a delegate, with its daemon.

use harness::waiting::wait_for;
use harness::{DNSMASQ, REFERENCE_PLUGINS, needs};
use serde_json::json;

use crate::lan::{Lan, V4};

#[test]
fn a_lease_is_obtained_checked_and_released_through_the_chain() {
    needs!("root", "dhcp", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(V4);
    let socket = lan.file("dhcp.sock");
    let program = format!("{REFERENCE_PLUGINS}/dhcp");
    let words = [&program, "daemon", "-socketpath", socket.to_str().unwrap()];
    let _daemon = lan.start(&words, "daemon.log");
    wait_for(|| socket.exists());

    let mut config = lan.config_of(&["dhcp"], &json!({ "daemonSocketPath": socket }));
    lan.plug_in("up0");
    lan.node.sh("ip netns add c1
         ip link set up0 netns c1 name eth0
         ip -n c1 link set eth0 up");
    let added = lan.call_chain("ADD", "c1", &config);
    let ip = added.ips().remove(0);
    assert_eq!(added.result()["ips"][0]["gateway"], "10.1.0.1");
    assert!(lan.text("leases").contains(&ip));

    config["prevResult"] = added.result();
    lan.call_chain("CHECK", "c1", &config).nothing();
    lan.call_chain("DEL", "c1", &config).nothing();
    wait_for(|| !lan.text("leases").contains(&ip));
}
