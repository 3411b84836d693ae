//! What `ipamctl` and GC know of leases.

use harness::{DNSMASQ, Node, needs, skip};
use serde_json::json;

use crate::lan::{Lan, V4};

#[test]
fn ipamctl_shows_a_lease_and_counts_and_lists_a_lost_one() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(V4);
    let config = lan.config(&json!({}));
    lan.sandbox.write_conflist("lan.conflist", &config);
    let ip = lan.add("c1", &config).remove(0);
    let tool = |words: &[&str]| lan.sandbox.ipamctl(words).run_on(&lan.node).stdout;
    let shown = tool(&["show", "c1"]);
    let digits = "006c616e2f657468302f6331";
    for text in [
        format!("{ip} by 10.1.0.1, client {digits}"),
        "for 10 min".into(),
    ] {
        assert!(shown.contains(&text), "{text} in {shown}");
    }
    let lost = || tool(&["metrics"]).contains(r#"ipam_lost_leases{network="lan"} 1"#);
    assert!(!lost());
    assert!(!tool(&["leaks"]).contains("gone from the interface"));
    lan.node.sh("ip -n c1 addr flush dev eth0 scope global");
    assert!(lost());
    let text = format!("{ip} is gone from the interface");
    assert!(tool(&["leaks"]).contains(&text));
}

#[test]
fn check_says_that_a_renewer_is_needed_until_one_runs() {
    needs!("root", "bridge", DNSMASQ);
    let node = match Node::with_own_processes() {
        Ok(node) => node,
        Err(reason) => return skip(&reason),
    };
    let lan = Lan::on(node);
    let config = lan.config(&json!({}));
    lan.sandbox.write_conflist("lan.conflist", &config);
    let is_missed = || {
        let checked = lan.sandbox.ipamctl(&["check"]).run_on(&lan.node);
        checked
            .stdout
            .contains("ipam-da-dhcp needs ipam-dhcp-renew")
    };
    assert!(is_missed());
    let _renewer = lan.renewer();
    assert!(!is_missed());
}

#[test]
fn gc_removes_the_record_of_a_container_that_is_gone_and_nobody_renews_its_lease() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(V4);
    let mut config = lan.config(&json!({}));
    for container in ["c1", "c2"] {
        lan.add(container, &config);
    }
    lan.node.sh("ip netns del c1");
    config["cniVersion"] = json!("1.1.0");
    config["cni.dev/valid-attachments"] = json!([]);
    lan.call_chain("GC", "c1", &config).nothing();
    // The other one's namespace is there: another runtime may have it.
    assert!(lan.record("c1").is_empty() && !lan.record("c2").is_empty());
    let asked = lan.count("DHCP");
    assert!(lan.renew_once().status.success());
    assert_eq!(lan.count("DHCP"), asked);
}
