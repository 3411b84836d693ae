//! Many leases: containers that begin at once, and a daemon that is killed again and again.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use harness::waiting::{wait_for, wait_within};
use harness::{ALL_POINTS, DNSMASQ, needs};
use serde_json::{Value, json};

use crate::lan::Lan;

/// Longest wait for a request of a daemon that has begun.
const MOST_FOR_A_REQUEST: Duration = Duration::from_secs(5);

/// The whole number with [`ALL_POINTS`], otherwise a tenth of it.
fn part_of(whole: usize) -> usize {
    match std::env::var_os(ALL_POINTS) {
        Some(_) => whole,
        None => whole / 10,
    }
}

#[test]
fn containers_that_begin_at_once_have_different_leases_each_time() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    let _server = lan.dnsmasq(&["--dhcp-range=10.1.0.50,10.1.0.250,10m"]);
    let config = lan.config(&json!({}));
    let names: Vec<String> = (0..part_of(100)).map(|i| format!("c{i}")).collect();
    for _ in 0..2 {
        let ips = thread::scope(|scope| {
            let adds: Vec<_> = names
                .iter()
                .map(|name| scope.spawn(|| lan.add(name, &config)))
                .collect();
            let ended = adds.into_iter().flat_map(|add| add.join().unwrap());
            ended.collect::<BTreeSet<String>>()
        });
        assert_eq!(ips.len(), names.len());
        thread::scope(|scope| {
            for name in &names {
                let (lan, config) = (&lan, &config);
                scope.spawn(move || {
                    lan.call_chain("DEL", name, config).nothing();
                    lan.node.sh(&format!("ip netns del {name}"));
                });
            }
        });
    }
}

/// The address with this number in the server's range.
fn address(number: usize) -> String {
    format!("10.2.{}.{}", 1 + number / 250, 1 + number % 250)
}

/// Copies of a record: each for another container, which has a lease of another address on the same
/// interface. The server has these leases in its file.
fn copy_record(lan: &Lan, count: usize, mac: &str) {
    let lines = lan.record("c1");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [mut leases, mut batch, mut neighbours] = [const { String::new() }; 3];
    for number in 0..count {
        let (ip, name) = (address(number), format!("copy{number}"));
        let id: Vec<String> = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut copy = String::new();
        for line in &lines {
            let mut line = line.clone();
            if let Some(first) = line.get_mut("adding") {
                first["containerId"] = json!(name);
            }
            if let Some(result) = line.get_mut("result") {
                result["ips"][0]["address"] = json!(format!("{ip}/16"));
                result["lease"][0]["address"] = json!(ip);
                result["lease"][0]["clientId"] = json!(id.concat());
            }
            copy.push_str(&format!("{line}\n"));
        }
        fs::write(lan.file(&format!("state/lan/{name}:eth0.json")), copy).unwrap();
        leases.push_str(&format!("9999999999 {mac} {ip} * {}\n", id.join(":")));
        neighbours.push_str(&format!(
            "neigh replace {ip} lladdr {mac} dev eth0 nud permanent\n"
        ));
        batch.push_str(&format!(
            "addr replace {ip}/16 dev eth0 valid_lft 600 preferred_lft 600\n"
        ));
    }
    fs::write(lan.file("leases"), leases).unwrap();
    // The kernel's table of neighbours is too small for a thousand that aren't permanent.
    for (namespace, file, content) in [("c1", "batch", batch), ("server", "neighbours", neighbours)]
    {
        let path = lan.file(file);
        fs::write(&path, content).unwrap();
        lan.node
            .sh(&format!("ip -n {namespace} -batch {}", path.display()));
    }
}

#[test]
fn a_daemon_killed_twenty_times_loses_no_lease_and_asks_for_none_more_than_twice() {
    needs!("root", "bridge", DNSMASQ);
    let lan = Lan::new();
    lan.node.sh("ip -n server addr add 10.2.0.1/16 dev eth0");
    let options = [
        "--dhcp-range=10.2.0.10,10.2.9.250,10m",
        "--dhcp-lease-max=3000",
    ];
    let server = lan.dnsmasq(&options);
    lan.add("c1", &lan.config(&json!({})));
    drop(server);
    let mac = lan
        .node
        .sh("ip netns exec c1 cat /sys/class/net/eth0/address");
    let count = part_of(1000);
    copy_record(&lan, count, mac.trim());
    fs::remove_file(lan.file("state/lan/c1:eth0.json")).unwrap();
    let _server = lan.dnsmasq(&options);
    let started = Instant::now();
    for _ in 0..20 {
        let asked = lan.count("DHCPREQUEST");
        let renewer = lan.renewer();
        wait_within(MOST_FOR_A_REQUEST, || lan.count("DHCPREQUEST") > asked);
        drop(renewer);
    }
    let minutes = usize::try_from(started.elapsed().as_secs() / 60).unwrap();
    let asked = lan.text("server.log");
    let requests = |ip: &str| asked.matches(&format!("DHCPREQUEST(eth0) {ip} ")).count();
    let all: Vec<String> = (0..count).map(address).collect();
    assert!(all.iter().any(|ip| requests(ip) > 0));
    for ip in &all {
        let times = requests(ip);
        assert!(times <= 2 + minutes, "{ip} was asked for {times} times");
    }
    // Each can be renewed.
    lan.node.sh(&format!(
        "sed 's/ 600/ 200/g' {0} | ip -n c1 -batch -",
        lan.file("batch").display()
    ));
    // A loaded server answers some of them only later.
    wait_for(|| lan.renew_once().status.success());
    let addresses = lan.addresses("c1");
    for ip in &all {
        let line = addresses
            .lines()
            .find(|line| line.contains(&format!(" {ip}/16 ")));
        let line = line.unwrap_or_else(|| panic!("{ip} is lost: {addresses}"));
        assert!(
            !line.contains("valid_lft 200sec") && !line.contains("valid_lft 1"),
            "{line}"
        );
    }
}
