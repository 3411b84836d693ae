//! whereabouts changes its allocations during an import; imports are interrupted.

use std::sync::{Arc, Mutex};

use harness::{ApiProxy, Call, Fate, KUBECTL, KUBERNETES_PROGRAMS, Output, ProxiedRequest, needs};
use serde_json::json;

use super::super::lost_answers::{heal, last};
use super::executable::{FIRST, WithWhereabouts};
use super::{DELEGATES, rows, take_over};

/// The `IPPool` of the range.
const IP_POOL: &str = "IPPool kube-system/10.40.0.0-28";

/// Imports through the proxy, and calls whereabouts before the request with this number, from 0.
/// `None` if the import makes fewer requests.
fn import_while(
    with: &WithWhereabouts,
    proxy: &ApiProxy,
    number: usize,
    call: Call,
) -> Option<Output> {
    let (mut call, mut seen) = (Some(call), 0);
    let said = Arc::new(Mutex::new(None));
    let of_rule = Arc::clone(&said);
    proxy.decide(move |_: &ProxiedRequest| {
        if seen == number {
            *of_rule.lock().unwrap() = call.take().map(Call::run);
        }
        seen += 1;
        Fate::Answered
    });
    let api = &with.cluster.api;
    let kubeconfig = proxy.kubeconfig_like(api, &api.kubeconfig());
    let words = ["import", "--from-whereabouts", "--json"];
    let output = with.cluster.administer_as(&kubeconfig, &words);
    heal(proxy);
    let said: Output = said.lock().unwrap().take()?;
    assert!(said.status.success(), "{said:?}");
    Some(output)
}

/// Imports once for each request, with a call of whereabouts before it. `was_read` says whether
/// the import has read the result of that call.
fn is_noticed_at_each_request(
    with: &WithWhereabouts,
    proxy: &ApiProxy,
    command: &str,
    was_read: impl Fn(&[String]) -> bool,
) {
    let other = if command == "ADD" { "DEL" } else { "ADD" };
    let call = |command: &str| with.call(command, "late", "net1", FIRST);
    let (mut read, mut nothing_written, mut written) = (0, 0, 0);
    for number in 0.. {
        let Some(output) = import_while(with, proxy, number, call(command)) else {
            break;
        };
        let addresses = with.cluster.addresses();
        let meanwhile = |start: &str| {
            let changed = output
                .stderr
                .find("whereabouts has changed these meanwhile: ");
            let names = changed.map(|start| &output.stderr[start..]);
            let is_named = names.is_some_and(|names| {
                names.contains(IP_POOL) || names.contains("kube-system/10.40.0.2;")
            });
            is_named && output.stderr.contains(start) && output.status.code() == Some(2)
        };
        if meanwhile("nothing is written, since") {
            assert!(addresses.is_empty(), "{command} {number}: {addresses:?}");
            nothing_written += 1;
        } else if meanwhile("what is claimed stays, but") {
            written += 1;
        } else {
            let ips: Vec<String> = rows(&output).into_iter().map(|(ip, ..)| ip).collect();
            assert!(was_read(&ips), "{command} {number}: {output:?}");
            read += 1;
        }
        with.cluster.api.kubectl(&["delete", "addresses", "--all"]);
        let _ = call(other).run();
    }
    assert!(
        read > 0 && nothing_written > 3 && written > 3,
        "{command}: {read} {nothing_written} {written}"
    );
}

#[test]
fn whatever_whereabouts_gives_or_releases_meanwhile_is_read_or_named() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let Some(with) = WithWhereabouts::start("whereabouts::executable_meanwhile") else {
        return;
    };
    let proxy = ApiProxy::start(&with.cluster.api);
    with.start_pod("web", "n1", &[FIRST]);
    let late = |ips: &[String]| ips.iter().any(|ip| ip == "10.40.0.2");
    is_noticed_at_each_request(&with, &proxy, "ADD", late);
    with.start_pod("late", "n2", &[FIRST]);
    is_noticed_at_each_request(&with, &proxy, "DEL", |ips| !late(ips));
}

#[test]
fn an_import_of_allocations_that_is_interrupted_anywhere_is_made_up_for_by_the_next() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let Some(with) = WithWhereabouts::start("whereabouts::executable_meanwhile") else {
        return;
    };
    let cluster = &with.cluster;
    let proxy = ApiProxy::start(&cluster.api);
    let [web, db] =
        [("web", "n1"), ("db", "n2")].map(|(pod, node)| with.start_pod(pod, node, &[FIRST]));
    // Nodes with an index of their addresses.
    let [n1, n2] = ["n1", "n2"].map(|node| cluster.config(node, &DELEGATES, "lan"));
    for config in [&n1, &n2] {
        with.ours("ADD", "probe", "net1", config).result();
        with.ours("DEL", "probe", "net1", config).nothing();
    }
    let mut proxied = n1.clone();
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig());
    proxied["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
    let import = |timeout: &str| {
        let mut config = proxied.clone();
        config["ipam"]["kubernetes"]["timeout"] = json!(timeout);
        cluster.sandbox.write_conflist("10-lan.conflist", &config);
        let import = cluster.sandbox.ipamctl(&["import", "--from-whereabouts"]);
        import.run()
    };
    assert!(import("20s").status.success());
    let requests = proxy.take_requests();
    let first_claim = requests.iter().position(|request| request.method == "POST");
    let mut claimed_before = 0;
    for number in first_claim.unwrap().. {
        for (pod, config) in [("web", &n1), ("db", &n2)] {
            with.ours("DEL", pod, "net1", config).nothing();
        }
        assert!(cluster.addresses().is_empty(), "{number}");
        proxy.decide(last(number, Fate::AnswerLost));
        let is_whole = import("500ms").status.success();
        heal(&proxy);
        if is_whole {
            break;
        }
        claimed_before += cluster.addresses().len();
        let again = take_over(cluster, &["--json"]);
        assert_eq!(again.status.code(), Some(0), "{number}: {again:?}");
        let mut expected = [&web[0], &db[0]].map(|ip| format!("lan.{ip}"));
        expected.sort();
        assert_eq!(cluster.addresses(), expected, "{number}");
    }
    assert!(claimed_before > 5, "{claimed_before}");
}
