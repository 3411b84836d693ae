//! The daemon that renews, killed at its system calls.

use std::collections::{BTreeMap, BTreeSet};

use harness::{Call, DHCP_RENEWER, Flavour, STRACE, executable, needs, sample};
use serde_json::json;

use crate::lan::Lan;

const CONTAINERS: [&str; 3] = ["c1", "c2", "c3"];

/// A look of the daemon through strace, which follows its threads.
fn traced(lan: &Lan, expression: &str, trace: &str) -> Call {
    let strace = [STRACE, "-f", "-qq", "-e", expression, "-o", trace];
    let words = [&strace[..], &["--"]].concat();
    let program = executable(DHCP_RENEWER, Flavour::Normal);
    let state = lan.sandbox.state_dir();
    let program_words = ["--once", "--state-dir", state.to_str().unwrap()];
    let call = Call::new(words[0].into()).args(&words[1..]);
    call.args([program.to_str().unwrap()]).args(program_words)
}

/// The names of system calls, each with the number of times that a thread has made it.
fn points(trace: &str) -> BTreeSet<(String, usize)> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let Some((name, _)) = call.trim_start().split_once('(') else {
            continue;
        };
        if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let count = counts.entry((thread, name)).or_default();
            *count += 1;
            points.insert((name.to_owned(), *count));
        }
    }
    points
}

#[test]
fn a_daemon_killed_at_any_system_call_loses_no_lease() {
    needs!("root", "trace", "bridge", "/usr/sbin/dhcpd");
    let lan = Lan::new();
    let _server = lan.isc(600);
    let config = lan.config(&json!({}));
    let ips: Vec<String> = CONTAINERS
        .iter()
        .flat_map(|container| lan.add(container, &config))
        .collect();
    // T1 is over for each of them.
    let age = || {
        for (container, ip) in CONTAINERS.iter().zip(&ips) {
            lan.node.sh(&format!(
                "ip -n {container} addr change {ip}/24 dev eth0 valid_lft 200 preferred_lft 200"
            ));
        }
    };
    age();
    let trace = lan.file("trace").display().to_string();
    let whole = traced(&lan, "trace=all", &trace).run_on(&lan.node);
    whole.ends(0);
    // ISC's server gives a whole lease only after a quarter of one.
    let is_renewed = |container: &&str| lan.lifetime(container).unwrap() > 400;
    assert!(CONTAINERS.iter().all(is_renewed));
    let all = points(&lan.text("trace"));
    assert!(all.len() > 50, "{all:?}");
    for (name, time) in sample(all.into_iter().collect()) {
        age();
        let expression = format!("inject={name}:signal=SIGKILL:when={time}");
        traced(&lan, &expression, "/dev/null").run_on(&lan.node);
        for (container, ip) in CONTAINERS.iter().zip(&ips) {
            let addresses = lan.addresses(container);
            assert!(addresses.contains(ip.as_str()), "{expression}: {addresses}");
        }
        assert!(lan.renew_once().status.success(), "{expression}");
        assert!(CONTAINERS.iter().all(is_renewed), "{expression}");
    }
}
