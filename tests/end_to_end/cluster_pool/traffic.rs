//! The same address never twice, and none lost, whatever happens to the API server, and before and
//! after its etcd is restored.

mod faults;
mod restore;

use std::fs;
use std::path::Path;

use harness::{Address, ApiProxy, KUBECTL, KUBERNETES_PROGRAMS, Observation, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;
use crate::cluster_traffic::node::{ClusterNode, POOLS};
use crate::cluster_traffic::traffic::Traffic;
use faults::FAULTS;

const NODES: usize = 4;
const CALLERS: usize = 4;

/// The nodes that reach the API server by way of the proxy.
const PROXIED: [&str; 2] = ["node-0", "node-1"];

/// The pools' subnets: so few addresses that each is soon given again, and now and then none is
/// left.
const SUBNETS: [&str; 2] = ["10.50.0.0/27", "fd00:50::/123"];

/// The cluster, and the proxy in front of its API server.
struct Scene {
    cluster: ApiCluster,
    proxy: ApiProxy,
}

impl Scene {
    /// Replaces a node's kubeconfig by a changed one, as its installer does.
    fn change_kubeconfig(&self, node: &str, change: impl FnOnce(&mut Value)) {
        let keys = self.cluster.engine_keys(node);
        let path = Path::new(keys["kubeconfig"].as_str().unwrap());
        let mut content = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut content);
        let new = path.with_extension("new");
        fs::copy(path, &new).unwrap();
        fs::write(&new, content.to_string()).unwrap();
        fs::rename(new, path).unwrap();
    }
}

#[test]
fn no_address_is_given_twice_and_none_is_lost_whatever_happens_to_the_api_server() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    for (pool, subnet) in POOLS.into_iter().zip(SUBNETS) {
        cluster.define(pool, &json!({"subnet": subnet}));
    }
    let proxy = ApiProxy::start(&cluster.api);
    let mut scene = Scene { cluster, proxy };
    for node in PROXIED {
        let url = scene.proxy.url();
        scene.change_kubeconfig(node, |content| {
            content["clusters"][0]["cluster"]["server"] = url.into();
        });
    }
    let keys = |node: &str| scene.cluster.engine_keys(node);
    let nodes = ClusterNode::several(NODES, "kubernetes", keys, &["ipam-da-kubernetes"]);
    let traffic = Traffic::new(nodes, CALLERS);
    traffic.run(|| {
        traffic.meets(&mut scene, &FAULTS, |scene| observe(scene, &traffic));
        restore::restore(&mut scene, &traffic);
    });
    traffic.judge(|| observe(&scene, &traffic));
    traffic.delete_all(|| observe(&scene, &traffic));
}

/// The objects of all addresses.
fn observe(scene: &Scene, traffic: &Traffic) -> Observation {
    let started = traffic.clock.elapsed();
    let objects = scene.cluster.objects("addresses");
    let addresses = objects.iter().map(|object| {
        let text = |key: &str| object["spec"][key].as_str().unwrap();
        let address = Address {
            pool: text("pool").to_owned(),
            ip: text("ip").parse().unwrap(),
        };
        let [node, network] = ["node", "network"].map(text);
        let [container, ifname] = ["containerID", "ifname"].map(text);
        (address, format!("{node}/{network}/{container}:{ifname}"))
    });
    Observation {
        started,
        ended: traffic.clock.elapsed(),
        addresses: addresses.collect(),
        sent_once: true,
        ..Observation::default()
    }
}
