//! Requests and answers are lost, late or replaced: no address is given twice, and DEL or GC
//! releases each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, Output, ProxiedRequest, needs};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;

/// A node behind the proxy.
struct Node<'a> {
    cluster: &'a dyn PoolCluster,
    proxy: ApiProxy,
    config: Value,
}

impl<'a> Node<'a> {
    fn within(cluster: &'a Cluster, timeout: &str) -> Self {
        let proxy = ApiProxy::start(&cluster.api);
        let mut config = cluster.config_within("n1", &json!([{"name": "red"}]), timeout);
        config["cni.dev/valid-attachments"] = json!([]);
        Self {
            config: cluster.behind(&proxy, &config),
            cluster,
            proxy,
        }
    }

    fn run(&self, command: &str, container: &str) -> Output {
        self.cluster.alone(command, container, &self.config).run()
    }

    /// Forwards all requests from now on, and forgets those before.
    fn heal(&self) {
        self.proxy.decide(|_| Fate::Answered);
        self.proxy.take_requests();
    }

    /// Runs a call until its first request with this method was held back. Later requests are lost.
    /// The time of a call may be up before that.
    fn run_until_held_back(&self, method: &'static str, command: &str, container: &str) -> Output {
        let held_back = Arc::new(AtomicBool::new(false));
        let is_held_back = Arc::clone(&held_back);
        self.proxy.decide(move |request: &ProxiedRequest| {
            if is_held_back.load(Ordering::SeqCst) {
                return Fate::RequestLost;
            }
            let is_it = request.method == method;
            is_held_back.store(is_it, Ordering::SeqCst);
            if is_it {
                Fate::HeldBack
            } else {
                Fate::Answered
            }
        });
        loop {
            let output = self.run(command, container);
            if held_back.load(Ordering::SeqCst) {
                self.heal();
                return output;
            }
        }
    }
}

#[test]
fn a_lost_or_late_request_takes_nothing_from_anybody() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Cluster::default();
    cluster.define("red", &json!({"subnet": "10.1.0.0/24"}));
    an_add_is_a_read_of_the_pool_and_a_creation(&Node::within(&cluster, "60s"));
    a_creation_or_deletion_that_comes_late_takes_nothing(&Node::within(&cluster, "1s"));
}

fn an_add_is_a_read_of_the_pool_and_a_creation(node: &Node<'_>) {
    let output = node.run("ADD", "c");
    assert_eq!(output.ips().len(), 1);
    let requests = node.proxy.take_requests();
    let sent: Vec<(&str, &str)> = requests
        .iter()
        .map(|request| (request.method.as_str(), request.path.as_str()))
        .collect();
    let group = "/apis/ipam-delegated.io/v1";
    let [pool, address] = [format!("{group}/pools/red"), format!("{group}/addresses?")];
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0], ("GET", pool.as_str()));
    assert_eq!(sent[1].0, "POST");
    assert!(address.starts_with(sent[1].1) || sent[1].1.starts_with(&address));
    node.run("DEL", "c").nothing();
}

fn a_creation_or_deletion_that_comes_late_takes_nothing(node: &Node<'_>) {
    node.run_until_held_back("POST", "ADD", "late")
        .refused(114, "");
    // The address doesn't exist yet. The chain keeps the record of an ADD with this code.
    node.run("DEL", "late").nothing();
    let [answer] = &node.proxy.deliver()[..] else {
        panic!("one creation was held back");
    };
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let given = node.run("ADD", "c").ips();
    node.run("DEL", "late").nothing();
    assert_eq!(node.cluster.addresses().len(), 1);

    node.run_until_held_back("DELETE", "DEL", "c")
        .refused(11, "");
    node.run("DEL", "c").nothing();
    let mut config = node.config.clone();
    config["ipam"]["pools"] = json!([{"name": "red", "requested-ip": given[0]}]);
    let output = node.cluster.alone("ADD", "d", &config).run();
    assert_eq!(output.ips(), given);
    for answer in node.proxy.deliver() {
        let is_refused = ["HTTP/1.1 404", "HTTP/1.1 409"].map(|start| answer.starts_with(start));
        assert!(is_refused.contains(&true), "{answer}");
    }
    assert_eq!(node.cluster.addresses().len(), 1);
}
