//! No address is given twice, and none is lost, whatever happens to the API server, to its etcd, to
//! the way to it, and to a node's token.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use harness::{
    Address, ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, Observation, ProxiedRequest, needs,
};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;
use crate::traffic::node::{ClusterNode, POOLS};
use crate::traffic::run::{FAULT, Fault, Traffic};

const NODES: usize = 4;
const CALLERS: usize = 4;

/// The nodes that reach the API server by way of the proxy.
const PROXIED: [&str; 2] = ["node-0", "node-1"];

/// The pools' subnets: so few addresses that each is soon given again, and now and then none is
/// left.
const SUBNETS: [&str; 2] = ["10.50.0.0/27", "fd00:50::/123"];

/// The cluster, and the proxy in front of its API server.
struct Scene {
    cluster: Cluster,
    proxy: ApiProxy,
}

/// During the last three, nobody gets an answer.
const FAULTS: [Fault<Scene>; 8] = [
    (
        "requests and answers are lost, or replaced by errors",
        |scene, meanwhile| {
            some(scene, meanwhile, |random, _| {
                let replaced = Fate::AnswerReplaced(random.choice([500, 504]).unwrap());
                let fates = [Fate::RequestLost, Fate::AnswerLost, replaced];
                random.choice(fates).unwrap()
            });
        },
    ),
    (
        "requests come late, and answers don't come",
        |scene, meanwhile| {
            some(scene, meanwhile, |random, request| {
                // The caller may have given up. A creation that comes after the DEL is GC's.
                let late = Fate::Late(Duration::from_millis(random.u64(..4000)));
                let fates = if request.method == "POST" {
                    [Fate::AnswerHeld, Fate::AnswerLost]
                } else {
                    [late, Fate::AnswerHeld]
                };
                random.choice(fates).unwrap()
            });
        },
    ),
    (
        "requests are refused with 429 and 503",
        |scene, meanwhile| {
            some(scene, meanwhile, |random, _| {
                let status = random.choice([429, 503]).unwrap();
                let wait = format!("Retry-After: {}", random.u8(..2));
                Fate::Refused(status, vec![wait], String::new())
            });
        },
    ),
    (
        "lists are old, and deletions come when all is over",
        |scene, meanwhile| {
            some(scene, meanwhile, |_, request| {
                let has = |text| request.path.contains(text);
                match request.method.as_str() {
                    // The list of a pool's names; those of DEL and GC have a selector.
                    "GET" if has("addresses?") && !has("labelSelector") => Fate::Old,
                    "DELETE" => Fate::HeldBack,
                    _ => Fate::Answered,
                }
            });
            scene.proxy.deliver();
        },
    ),
    (
        "a node's token is refused, and replaced",
        |scene, meanwhile| {
            let set = |token: &str| {
                scene.change_kubeconfig("node-3", |content| {
                    content["users"][0]["user"]["token"] = token.into();
                });
            };
            set("expired");
            meanwhile();
            set(&scene.cluster.api.token_of_node("node-3"));
        },
    ),
    ("the API server is stopped, and goes on", |scene, _| {
        scene.cluster.api.control_plane.pause_api_server(FAULT);
    }),
    ("its etcd is stopped, and goes on", |scene, _| {
        scene.cluster.api.control_plane.pause_etcd(FAULT);
    }),
    ("its etcd is killed", |scene, _| {
        scene.cluster.api.control_plane.stop_etcd();
        sleep(FAULT);
        scene.cluster.api.control_plane.start_etcd();
    }),
];

impl Scene {
    /// Replaces a node's kubeconfig by a changed one, as its installer does.
    fn change_kubeconfig(&self, node: &str, change: impl FnOnce(&mut Value)) {
        let path = self.cluster.kubeconfig(node);
        let path: &Path = &path;
        let mut content = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut content);
        let new = path.with_extension("new");
        fs::copy(path, &new).unwrap();
        fs::write(&new, content.to_string()).unwrap();
        fs::rename(new, path).unwrap();
    }
}

/// Gives one of four requests by way of the proxy a fate, and every other write.
fn some(
    scene: &Scene,
    meanwhile: &dyn Fn(),
    fate: impl Fn(&mut Rng, &ProxiedRequest) -> Fate + Send + 'static,
) {
    let mut random = Rng::with_seed(7);
    scene.proxy.decide(move |request| {
        let one_of = if is_write(request) { 2 } else { 4 };
        match random.u8(..one_of) {
            0 => fate(&mut random, request),
            _ => Fate::Answered,
        }
    });
    meanwhile();
    scene.proxy.decide(|_| Fate::Answered);
}

fn is_write(request: &ProxiedRequest) -> bool {
    ["POST", "DELETE"].contains(&request.method.as_str())
}

#[test]
fn no_address_is_given_twice_and_none_is_lost_whatever_happens_to_the_api_server() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Cluster::default();
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
    let keys = |node: &str, timeout: &str| scene.cluster.keys(node, timeout);
    let nodes = ClusterNode::several(NODES, "ipam-da-kubernetes", keys);
    let traffic = Traffic::new(nodes, CALLERS);
    traffic.run(|| {
        traffic.meets(&mut scene, &FAULTS, |scene| observe(scene, &traffic));
    });
    traffic.judge(|| observe(&scene, &traffic));
    traffic.delete_all(|| observe(&scene, &traffic));
}

/// The objects of all addresses.
fn observe(scene: &Scene, traffic: &Traffic) -> Observation {
    let started = traffic.clock.elapsed();
    let objects = scene.cluster.api.objects("addresses");
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
