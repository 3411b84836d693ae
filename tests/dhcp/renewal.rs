//! The daemon that renews: without state, killed, and with servers that go away or forget.

use std::fs;

use harness::waiting::{wait_for, wait_until_equal};
use harness::{DNSMASQ, needs};
use serde_json::json;

use crate::lan::Lan;

const ISC: &str = "/usr/sbin/dhcpd";

#[test]
fn a_lease_is_renewed_as_long_as_a_daemon_lives_and_its_end_is_the_kernels() {
    needs!("root", "bridge", ISC);
    let lan = Lan::new();
    let _server = lan.isc(8);
    let config = lan.config(&json!({}));
    assert_eq!(lan.add("c1", &config), ["10.1.0.50"]);
    assert_eq!(lan.lifetime("c1"), None);
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
    let record = lan.record("c1");
    let (_, at) = record.split_once(r#""at":""#).unwrap();
    let older = record.replacen(at.split('"').next().unwrap(), "2026-01-01T00:00:00Z", 1);
    fs::write(lan.file("state/lan/c1:eth0.json"), older).unwrap();
    fs::remove_file(lan.file("leases")).unwrap();
    let _server = lan.dnsmasq(&["--dhcp-range=10.1.0.70,10.1.0.70,2m"]);
    let output = lan.renew_once();
    assert!(!output.status.success());
    assert!(
        output.stderr.contains("another address, 10.1.0.70"),
        "{output:?}"
    );
    assert!(lan.addresses("c1").is_empty());
    assert_eq!(lan.count("DHCPACK(eth0) 10.1.0.70"), 0);
    let leaks = lan.sandbox.ipamctl(&["leaks"]).run_on(&lan.node);
    assert!(
        leaks
            .stdout
            .contains("10.1.0.50 is gone from the interface"),
        "{leaks:?}"
    );
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
