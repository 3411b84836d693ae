//! The other servers: ISC's and Kea's, the latter for both families.

use harness::{DHCP_RENEWER, needs};
use serde_json::json;

use crate::lan::Lan;

#[test]
fn iscs_server_gives_a_lease_and_takes_it_back() {
    needs!("root", "bridge", "/usr/sbin/dhcpd");
    let lan = Lan::new();
    let _server = lan.isc(600);
    let config = lan.config(&json!({}));
    assert_eq!(lan.add("c1", &config), ["10.1.0.50"]);
    lan.call_chain("DEL", "c1", &config).nothing();
    harness::waiting::wait_until_equal(|| lan.count("DHCPRELEASE of 10.1.0.50"), 1);
}

#[test]
fn kea_gives_leases_of_both_families_renews_them_and_takes_them_back() {
    needs!(
        "root",
        "bridge",
        "/usr/sbin/kea-dhcp4",
        "/usr/sbin/kea-dhcp6"
    );
    let lan = Lan::new();
    let (_v4, _v6) = (lan.kea(4, 6), lan.kea(6, 6));
    let config = lan.config(&json!({"dhcp": {"families": ["4", "6"]}}));
    let ips = lan.add("c1", &config);
    assert_eq!(ips, ["10.1.0.50", "fd00:1::50"]);
    let _renewer = lan.renewer();
    let renewed = |ip: &str| {
        let log = lan.text("renewer.log");
        log.matches(&format!("renewed address={ip} ")).count()
    };
    // Each lease would be over by then.
    harness::waiting::wait_for(|| ips.iter().all(|ip| renewed(ip) >= 3));
    let addresses = lan.addresses("c1");
    assert!(
        ips.iter().all(|ip| addresses.contains(ip)),
        "{DHCP_RENEWER}: {addresses}"
    );
    lan.call_chain("DEL", "c1", &config).nothing();
    for (message, ip) in ["DHCP4_RELEASE ", "DHCP6_RELEASE_NA "].iter().zip(&ips) {
        let is_released = |line: &str| line.contains(message) && line.contains(ip.as_str());
        harness::waiting::wait_for(|| lan.text("server.log").lines().any(is_released));
    }
}

#[test]
fn a_lost_address_comes_back_from_a_server_that_pings_before_its_offer() {
    needs!("root", "bridge", "/usr/sbin/dhcpd", "/usr/sbin/kea-dhcp6");
    let lan = Lan::new();
    let (server, _v6) = (lan.isc(600), lan.kea(6, 600));
    let config = lan.config(&json!({"dhcp": {"families": ["4", "6"]}}));
    assert_eq!(lan.add("c1", &config), ["10.1.0.50", "fd00:1::50"]);
    // The server verifies for a second that nobody has an address that it doesn't remember.
    drop(server);
    std::fs::remove_file(lan.file("isc.leases")).unwrap();
    let _server = lan.isc(600);
    lan.node.sh("ip -n c1 -4 addr flush dev eth0");
    lan.make_old("c1");
    let _renewer = lan.renewer();
    harness::waiting::wait_for(|| lan.addresses("c1").contains("10.1.0.50/24"));
}
