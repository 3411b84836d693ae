//! The daemon that renews: without state, killed, and with servers that go away or forget.

use std::fs;

use harness::waiting::{wait_for, wait_until_equal};
use harness::{DNSMASQ, needs};
use serde_json::json;

use crate::lan::{Lan, V4};

const ISC: &str = "/usr/sbin/dhcpd";

#[test]
fn a_lease_is_renewed_as_long_as_a_daemon_lives_and_its_end_is_the_kernels() {
    needs!("root", "bridge", ISC);
    let lan = Lan::new();
    let _server = lan.isc(8);
    let config = lan.config(&json!({}));
    assert_eq!(lan.add("c1", &config), ["10.1.0.50"]);
    assert_eq!(lan.lifetime("c1"), None);
    fs::write(lan.file("state/stray"), "").unwrap();
    let renewer = lan.renewer();
    wait_for(|| lan.lifetime("c1").is_some());
    let acks = lan.count("DHCPACK");
    // A reload of the unit doesn't end it.
    lan.node.sh(&format!("kill -HUP {}", renewer.id()));
    // More than a whole lease.
    wait_for(|| lan.count("DHCPACK") >= acks + 3);
    drop(renewer);
    // Nobody renews: the kernel removes the address.
    wait_for(|| lan.addresses("c1").is_empty());
    // A daemon that is started later gets the lease again, with its routes.
    let _renewer = lan.renewer();
    wait_for(|| lan.addresses("c1").contains("10.1.0.50/24"));
    wait_for(|| {
        lan.node
            .sh("ip -n c1 route")
            .contains("default via 10.1.0.1")
    });
    lan.call("DEL", "c1", &config).nothing();
}

#[test]
fn a_server_that_has_forgotten_its_leases_gives_the_same_address_again() {
    needs!("root", "bridge", ISC);
    let lan = Lan::new();
    let server = lan.isc(8);
    assert_eq!(lan.add("c1", &lan.config(&json!({}))), ["10.1.0.50"]);
    let _renewer = lan.renewer();
    wait_for(|| lan.lifetime("c1").is_some());
    drop(server);
    fs::remove_file(lan.file("isc.leases")).unwrap();
    let acks = lan.count("DHCPACK on 10.1.0.50");
    let _server = lan.isc(8);
    wait_for(|| lan.count("DHCPACK on 10.1.0.50") > acks);
    wait_for(|| lan.addresses("c1").contains("10.1.0.50/24"));
}

#[test]
fn an_address_that_is_given_to_another_client_meanwhile_is_not_used() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let server = lan.dnsmasq(&["--dhcp-range=10.1.0.50,10.1.0.50,2m"]);
    assert_eq!(lan.add("c1", &lan.config(&json!({}))), ["10.1.0.50"]);
    drop(server);
    // The address is lost, and the server offers another one.
    lan.node.sh("ip -n c1 addr flush dev eth0 scope global");
    lan.make_old("c1");
    fs::remove_file(lan.file("leases")).unwrap();
    let _server = lan.dnsmasq(&["--dhcp-range=10.1.0.70,10.1.0.70,2m"]);
    let output = lan.renew_once();
    assert!(!output.status.success());
    output.warns(["another address, 10.1.0.70"]);
    assert!(lan.addresses("c1").is_empty());
    assert_eq!(lan.count("DHCPACK(eth0) 10.1.0.70"), 0);
    let leaks = lan.sandbox.ipamctl(&["leaks"]).run_on(&lan.node);
    leaks.prints(["10.1.0.50 is gone from the interface"]);
}

#[test]
fn a_del_beside_renewals_leaves_no_lease() {
    needs!("root", "bridge", ISC);
    let lan = Lan::new();
    let _server = lan.isc(600);
    let config = lan.config(&json!({}));
    let _renewer = lan.renewer();
    for container in ["c1", "c2", "c3"] {
        lan.add(container, &config);
        lan.call_chain("DEL", container, &config).nothing();
    }
    wait_until_equal(|| lan.count("DHCPRELEASE of"), 3);
}

#[test]
fn a_refusal_that_a_server_broadcasts_removes_the_address() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let one = [
        "--dhcp-range=10.1.0.50,10.1.0.50,2m",
        "--dhcp-authoritative",
    ];
    let server = lan.dnsmasq(&one);
    let mut config = lan.config(&json!({}));
    lan.node.sh("ip netns add c1");
    let added = lan.call("ADD", "c1", &config);
    assert_eq!(added.ips(), ["10.1.0.50"]);
    drop(server);
    // The server forgets the lease, and gives the address to another client.
    fs::remove_file(lan.file("leases")).unwrap();
    let _server = lan.dnsmasq(&one);
    assert_eq!(lan.add("c2", &config), ["10.1.0.50"]);
    config["prevResult"] = added.result();
    lan.call_chain("CHECK", "c1", &config)
        .refused(112, "the DHCP server refuses: ");
    lan.set_lifetime("c1", "10.1.0.50/24", 50);
    let output = lan.renew_once();
    assert!(lan.addresses("c1").is_empty(), "{output:?}");
}

#[test]
fn a_daemon_that_starts_shortly_before_a_long_lease_ends_renews_it() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(&["--dhcp-range=10.1.0.50,10.1.0.60,12h"]);
    let ip = lan.add("c1", &lan.config(&json!({}))).remove(0);
    lan.set_lifetime("c1", &format!("{ip}/24"), 12);
    let _renewer = lan.renewer();
    wait_for(|| lan.lifetime("c1").is_some_and(|left| left > 1000));
}

#[test]
fn a_lost_address_of_a_long_lease_comes_back_with_the_server_and_has_its_routes() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let options = [&["--dhcp-range=10.1.0.50,10.1.0.50,12h"], &V4[1..]].concat();
    let server = lan.dnsmasq(&options);
    assert_eq!(lan.add("c1", &lan.config(&json!({}))), ["10.1.0.50"]);
    drop(server);
    lan.node.sh("ip -n c1 addr flush dev eth0 scope global");
    lan.make_old("c1");
    let _renewer = lan.renewer();
    wait_for(|| lan.text("renewer.log").contains("not renewed"));
    let _server = lan.dnsmasq(&options);
    wait_for(|| lan.addresses("c1").contains("10.1.0.50/24"));
    wait_for(|| {
        let route = lan.node.sh("ip -n c1 route show default");
        route.contains("via 10.1.0.1") && route.contains("mtu 1400")
    });
}
