//! Faults of the API server, of its etcd, of the way to it, and of a node's token.

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use harness::{Fate, ProxiedRequest};

use super::super::lost_answers::heal;
use super::Scene;
use crate::cluster_traffic::traffic::{FAULT, Fault};

/// During the last three, nobody gets an answer.
pub(super) const FAULTS: [Fault<Scene>; 8] = [
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
            some(scene, meanwhile, |random, _| {
                // The caller may have given up.
                let late = Fate::Late(Duration::from_millis(random.u64(..4000)));
                random.choice([late, Fate::AnswerHeld]).unwrap()
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
        "lists are old, and writes come when all is over",
        |scene, meanwhile| {
            some(scene, meanwhile, |_, request| {
                let lists_pool = "labelSelector=ipam-delegated.io%2Fpool";
                match request.path.contains(lists_pool) {
                    true => Fate::Old,
                    false if is_write(request) => Fate::HeldBack,
                    false => Fate::Answered,
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
        scene.cluster.api.pause_api_server();
        sleep(FAULT);
        scene.cluster.api.continue_api_server();
    }),
    ("its etcd is stopped, and goes on", |scene, _| {
        scene.cluster.api.pause_etcd();
        sleep(FAULT);
        scene.cluster.api.continue_etcd();
    }),
    ("its etcd is killed", |scene, _| {
        scene.cluster.api.stop_etcd();
        sleep(FAULT);
        scene.cluster.api.start_etcd();
    }),
];

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
    heal(&scene.proxy);
}

fn is_write(request: &ProxiedRequest) -> bool {
    ["POST", "DELETE"].contains(&request.method.as_str())
}
