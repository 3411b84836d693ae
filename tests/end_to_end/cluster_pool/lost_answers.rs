//! Requests and answers are lost, late or outdated: no address is given twice, and DEL or GC
//! releases each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, ProxiedRequest, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

const ALLOCATOR: &str = "ipam-da-kubernetes";

/// A node behind the proxy.
pub(super) struct Node<'a> {
    pub(super) cluster: &'a dyn PoolCluster,
    pub(super) proxy: &'a ApiProxy,
    config: Value,
}

impl Node<'_> {
    pub(super) fn run(&self, command: &str, container: &str) -> harness::Output {
        self.cluster
            .alone(ALLOCATOR, command, container, &self.config)
    }

    /// The same node with this `timeout`.
    pub(super) fn within(&self, timeout: &str) -> Self {
        Self {
            config: self.cluster.within(timeout, &self.config),
            ..*self
        }
    }

    /// Number of requests of a call, if all of them are forwarded.
    pub(super) fn requests(&self, command: &str, container: &str) -> usize {
        heal(self.proxy);
        let output = self.run(command, container);
        assert!(output.status.success(), "{output:?}");
        heal(self.proxy)
    }
}

/// Forwards all requests from now on; returns the number of requests before.
pub(super) fn heal(proxy: &ApiProxy) -> usize {
    proxy.decide(|_| Fate::Answered);
    proxy.take_requests().len()
}

/// Sets the fate of the request with this number, from 0.
pub(super) fn only(
    number: usize,
    fate: Fate,
) -> impl FnMut(&ProxiedRequest) -> Fate + Send + 'static {
    let mut seen = 0;
    move |_: &ProxiedRequest| {
        seen += 1;
        match seen - 1 == number {
            true => fate.clone(),
            false => Fate::Answered,
        }
    }
}

/// Sets the fate of the request with this number, from 0, and loses all later ones.
pub(super) fn last(
    number: usize,
    fate: Fate,
) -> impl FnMut(&ProxiedRequest) -> Fate + Send + 'static {
    let mut seen = 0;
    move |_: &ProxiedRequest| {
        seen += 1;
        match (seen - 1).cmp(&number) {
            std::cmp::Ordering::Less => Fate::Answered,
            std::cmp::Ordering::Equal => fate.clone(),
            std::cmp::Ordering::Greater => Fate::RequestLost,
        }
    }
}

pub(super) fn with_node(what: impl FnOnce(&ApiCluster, &Node<'_>)) {
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let mut config = shared.config("n1", &[ALLOCATOR], &json!([{"name": "red"}]));
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
    config["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
    let node = Node {
        cluster: shared,
        proxy: &proxy,
        config,
    };
    node.run("ADD", "other").result();
    what(&cluster, &node);
}

#[test]
fn whatever_request_or_answer_is_lost_nothing_is_given_twice_and_nothing_stays() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|_, node| {
        let others = node.cluster.held();
        let requests = node.requests("ADD", "c");
        node.run("DEL", "c").nothing();
        for number in 0..requests {
            for fate in [Fate::RequestLost, Fate::AnswerLost] {
                node.proxy.decide(only(number, fate.clone()));
                let output = node.run("ADD", "c");
                heal(node.proxy);
                let mut held = node.cluster.held();
                held.retain(|held| !others.contains(held));
                if output.status.success() {
                    let ip = &output.ips()[0];
                    assert_eq!(held, [format!("n1/testnet/c:eth0/red/{ip}")], "{number}");
                } else {
                    // The ADD is undone, because the API server answers again.
                    assert_eq!(output.code(), 11, "{output:?}");
                    assert!(held.is_empty(), "{number} {fate:?}: {held:?} {output:?}");
                }
                node.run("DEL", "c").nothing();
                assert_eq!(node.cluster.held(), others, "{number} {fate:?}");
            }
        }
    });
}

#[test]
fn what_an_add_leaves_whose_api_server_goes_away_is_released_by_del_or_gc() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|_, node| {
        // GC of the allocator only, without a valid attachment.
        node.run("DEL", "other").nothing();
        let requests = node.requests("ADD", "c");
        node.run("DEL", "c").nothing();
        let impatient = node.within("1s");
        for number in 0..requests {
            for (fate, then) in [
                (Fate::RequestLost, "DEL"),
                (Fate::AnswerLost, "DEL"),
                (Fate::AnswerLost, "GC"),
            ] {
                node.proxy.decide(last(number, fate.clone()));
                let output = impatient.run("ADD", "c");
                heal(node.proxy);
                assert_eq!(output.code(), 11, "{number} {fate:?}: {output:?}");
                node.run(then, "c").nothing();
                let held = node.cluster.held();
                assert!(held.is_empty(), "{number} {fate:?}, {then}: {held:?}");
            }
        }
    });
}

#[test]
fn a_del_or_gc_whose_requests_are_lost_is_made_up_for_by_the_next() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|_, node| {
        node.run("DEL", "other").nothing();
        for command in ["DEL", "GC"] {
            node.run("ADD", "c").result();
            for number in 0..node.requests(command, "c") {
                for fate in [Fate::RequestLost, Fate::AnswerLost] {
                    node.run("ADD", "c").result();
                    node.proxy.decide(only(number, fate.clone()));
                    let output = node.run(command, "c");
                    heal(node.proxy);
                    let is_done = node.cluster.held().is_empty();
                    let is_said = output.status.success();
                    assert!(is_done || !is_said, "{command} {number} {fate:?}");
                    node.run(command, "c").nothing();
                    assert!(
                        node.cluster.held().is_empty(),
                        "{command} {number} {fate:?}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_creation_or_deletion_that_comes_late_takes_nothing_from_anybody() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|_, node| {
        node.run("DEL", "other").nothing();
        let hold_back = |wanted: &'static str| {
            let held_back = Arc::new(AtomicUsize::new(0));
            node.proxy.decide(move |request: &ProxiedRequest| {
                let is_first =
                    request.method == wanted && held_back.fetch_add(1, Ordering::SeqCst) == 0;
                match (is_first, held_back.load(Ordering::SeqCst)) {
                    (true, _) => Fate::HeldBack,
                    (false, 0) => Fate::Answered,
                    (false, _) => Fate::RequestLost,
                }
            });
        };
        let impatient = node.within("1s");
        hold_back("POST");
        assert_eq!(impatient.run("ADD", "late").code(), 11);
        heal(node.proxy);
        // The address doesn't exist yet.
        node.run("DEL", "late").nothing();
        let [answer] = &node.proxy.deliver()[..] else {
            panic!("one creation was held back");
        };
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        let given = node.run("ADD", "c").ips();
        assert_eq!(node.cluster.reserved("red").len(), 2);
        // The note stays in the index until then: a runtime may call DEL again.
        node.run("DEL", "late").nothing();
        assert_eq!(node.cluster.reserved("red"), given);

        hold_back("DELETE");
        assert_eq!(impatient.run("DEL", "c").code(), 11);
        heal(node.proxy);
        node.run("DEL", "c").nothing();
        let mut config = node.config.clone();
        config["ipam"]["pools"] = json!([{"name": "red", "requested-ip": given[0]}]);
        let output = node.cluster.alone(ALLOCATOR, "ADD", "d", &config);
        assert_eq!(output.ips(), given);
        for answer in node.proxy.deliver() {
            let is_refused =
                ["HTTP/1.1 404", "HTTP/1.1 409"].map(|start| answer.starts_with(start));
            assert!(is_refused.contains(&true), "{answer}");
        }
        assert_eq!(node.cluster.reserved("red"), given);
    });
}

#[test]
fn an_api_server_that_asks_for_patience_gets_it() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|_, node| {
        let mut refused = 0;
        node.proxy.decide(move |request: &ProxiedRequest| {
            refused += 1;
            let is_refused = request.method == "POST" || refused <= 2;
            match is_refused && refused < 12 {
                true => Fate::Refused(429, vec!["Retry-After: 0".to_owned()], String::new()),
                false => Fate::Answered,
            }
        });
        node.run("ADD", "c").result();
        assert!(heal(node.proxy) > 12);
        assert_eq!(node.cluster.reserved("red").len(), 2);
        node.run("DEL", "c").nothing();
        assert_eq!(node.cluster.reserved("red").len(), 1);
    });
}

#[test]
fn lists_of_an_older_state_give_nothing_twice_and_release_nothing_that_lives() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|_, node| {
        let is_list = |request: &ProxiedRequest| request.path.contains("limit=");
        let old_lists = move |request: &ProxiedRequest| match is_list(request) {
            true => Fate::Old,
            false => Fate::Answered,
        };
        let reserved = node.cluster.reserved("red");
        // A list from a time when another container had the address.
        heal(node.proxy);
        let mut kept = node.config.clone();
        kept["cni.dev/valid-attachments"] = json!([{"containerID": "other", "ifname": "eth0"}]);
        let gc = || {
            let call = node.cluster.sandbox().call(ALLOCATOR, "GC", &kept);
            call.run()
        };
        gc().nothing();
        let mut config = node.config.clone();
        config["ipam"]["pools"] = json!([{"name": "red", "requested-ip": reserved[0]}]);
        node.run("DEL", "other").nothing();
        let living = node.cluster.alone(ALLOCATOR, "ADD", "living", &config);
        assert_eq!(living.ips(), reserved);
        kept["cni.dev/valid-attachments"] = json!([{"containerID": "living", "ifname": "eth0"}]);
        node.proxy.decide(old_lists);
        let output = node.cluster.sandbox().call(ALLOCATOR, "GC", &kept).run();
        output.nothing();
        assert!(node.proxy.take_requests().iter().any(is_list));
        assert_eq!(node.cluster.reserved("red"), reserved);
    });
}

#[test]
fn an_add_whose_requests_are_executed_twice_gets_an_address_of_each_pool_or_none() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.2.0.0/24"}));
    shared.define("green", &json!({"subnet": "10.3.0.0/24", "block": 28}));
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
    let behind_proxy = |delegates: &[&str], pools: &Value| {
        let mut config = shared.config("n1", delegates, pools);
        config["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
        config
    };
    let pools = json!([{"name": "red"}, {"name": "blue"}]);
    let addresses = behind_proxy(&shared.addresses(), &pools);
    let blocks = behind_proxy(&shared.in_blocks(), &json!([{"name": "green"}]));
    proxy.decide(|request| match request.method.as_str() {
        "GET" => Fate::Answered,
        _ => Fate::Repeated,
    });
    let given = shared.add("a", &addresses).ips();
    assert_eq!(cluster.reserved("red"), given[..1]);
    assert_eq!(cluster.reserved("blue"), given[1..]);
    shared.add("b", &blocks).result();
    assert_eq!(cluster.blocks_of("green", "n1").len(), 1);
    shared.del("a", &addresses).nothing();
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());

    // What was created by the first execution doesn't count, either, while nothing is given.
    let administrator = shared.as_administrator(&addresses);
    let begun = shared.ipamctl(&administrator, &["reconcile", "--begin"]);
    assert!(begun.status.success(), "{begun:?}");
    shared.add("a", &addresses).refused(11, "was restored");
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}
