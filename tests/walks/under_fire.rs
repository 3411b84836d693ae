//! Many processes of ours and of `host-local` at once in one directory. Some are killed. At the
//! end, the directory contains exactly the living attachments' addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use harness::{Call, Sandbox, names, reference};
use serde_json::{Value, json};

/// Only 29 addresses, for more workers.
const SUBNET: &str = "10.1.0.0/27";
const CAPACITY: usize = 29;

const WORKERS: usize = 32;
const OPERATIONS: usize = 2_000;

struct Fire {
    sandbox: Sandbox,
    with_host_local: bool,
    /// A runtime makes no other calls during GC.
    gc_runs_alone: RwLock<()>,
    known: Mutex<Known>,
}

/// The runtime's own state.
#[derive(Default)]
struct Known {
    /// The addresses of attachments that were added and not deleted.
    live: BTreeMap<String, String>,
    /// Attachments whose call was killed: they may or may not hold an address.
    killed: BTreeSet<String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Fire {
    fn call(&self, host_local: bool, command: &str, container: &str, keys: &Value) -> Call {
        let pools = json!([{ "subnet": SUBNET }]);
        let mut config = if host_local {
            self.sandbox
                .config("1.0.0", &[], &json!({"ranges": [pools]}))
        } else {
            let mut config = self.sandbox.config("1.1.0", &[], &json!({}));
            config["prevResult"] = json!({ "pools": pools });
            config
        };
        for (key, value) in keys.as_object().unwrap() {
            config[key] = value.clone();
        }
        let plugin = if host_local {
            "host-local"
        } else {
            "ipam-da-host-local"
        };
        self.sandbox
            .call(plugin, command, &config)
            .container(container)
    }

    fn worker(&self, worker: usize, mut rng: Rng) {
        // This worker's attachments and their addresses.
        let mut mine: Vec<(String, String)> = Vec::new();
        for n in 0..OPERATIONS / WORKERS {
            let host_local = self.with_host_local && rng.bool();
            let kill = rng.u8(..10) == 0;
            match rng.u8(..100) {
                0..2 => self.gc(kill, &mut rng),
                2..12 if !mine.is_empty() && !kill => self.check(&mine[rng.usize(..mine.len())]),
                12..50 if !mine.is_empty() => {
                    let (container, ip) = mine.swap_remove(rng.usize(..mine.len()));
                    self.del(host_local, &container, &ip, kill, &mut rng);
                }
                _ => {
                    let container = format!("w{worker}-{n}");
                    let ip = self.add(host_local, &container, kill, &mut rng);
                    mine.extend(ip.map(|ip| (container, ip)));
                }
            }
        }
    }

    fn add(&self, host_local: bool, container: &str, kill: bool, rng: &mut Rng) -> Option<String> {
        let _others_may_run = self.gc_runs_alone.read().unwrap();
        let call = self.call(host_local, "ADD", container, &json!({}));
        if kill {
            self.known
                .lock()
                .unwrap()
                .killed
                .insert(container.to_owned());
            call.run_and_kill(Duration::from_micros(rng.u64(..4_000)));
            return None;
        }
        let output = call.run();
        let mut known = self.known.lock().unwrap();
        if !output.status.success() {
            // The only acceptable error is a full pool.
            if !host_local {
                assert_eq!(output.code(), 11, "{output:?}");
            }
            known.count("refused");
            return None;
        }
        let ip = output.ips().remove(0);
        let before = known.live.insert(ip.clone(), container.to_owned());
        assert_eq!(before, None, "{ip} was given twice, now to {container}");
        known.count("added");
        Some(ip)
    }

    fn del(&self, host_local: bool, container: &str, ip: &str, kill: bool, rng: &mut Rng) {
        let _others_may_run = self.gc_runs_alone.read().unwrap();
        // From the start of DEL on, another attachment may get the address.
        self.known.lock().unwrap().live.remove(ip);
        let call = self.call(host_local, "DEL", container, &json!({}));
        if kill {
            self.known
                .lock()
                .unwrap()
                .killed
                .insert(container.to_owned());
            call.run_and_kill(Duration::from_micros(rng.u64(..4_000)));
        } else {
            call.run().nothing();
            self.known.lock().unwrap().count("deleted");
        }
    }

    fn check(&self, (container, ip): &(String, String)) {
        let _others_may_run = self.gc_runs_alone.read().unwrap();
        let prev_result = json!({
            "ips": [{"address": format!("{ip}/27")}],
            "pools": [{ "subnet": SUBNET }]
        });
        self.call(
            false,
            "CHECK",
            container,
            &json!({ "prevResult": prev_result }),
        )
        .run()
        .nothing();
        self.known.lock().unwrap().count("checked");
    }

    fn gc(&self, kill: bool, rng: &mut Rng) {
        let _alone = self.gc_runs_alone.write().unwrap();
        let mut known = self.known.lock().unwrap();
        self.age_torn_files();
        let call = self.call(false, "GC", "-", &known.valid_attachments());
        if kill {
            call.run_and_kill(Duration::from_micros(rng.u64(..4_000)));
            return;
        }
        call.run().nothing();
        assert_eq!(self.held(), known.live, "a GC leaves exactly what is live");
        known.killed.clear();
        known.count("collected");
    }

    /// Sets back the times of torn files that a killed host-local has left, so that a GC removes
    /// them.
    fn age_torn_files(&self) {
        for (ip, content) in self.sandbox.reservations("testnet") {
            if content.is_empty() {
                let path = self.sandbox.data_dir().join("testnet").join(ip);
                let file = std::fs::File::options().write(true).open(path).unwrap();
                let old = std::time::SystemTime::now() - Duration::from_secs(60);
                file.set_modified(old).unwrap();
            }
        }
    }

    /// The reservations on disk: address and container.
    fn held(&self) -> BTreeMap<String, String> {
        let reservations = self.sandbox.reservations("testnet").into_iter();
        reservations
            .map(|(ip, content)| {
                let (container, ifname) = content.split_once("\r\n").unwrap_or((&content, "eth0"));
                assert_eq!(ifname, "eth0", "{ip}: {content:?}");
                (ip, container.to_owned())
            })
            .collect()
    }
}

impl Known {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn valid_attachments(&self) -> Value {
        let list: Vec<Value> = self
            .live
            .values()
            .map(|container| json!({"containerID": container, "ifname": "eth0"}))
            .collect();
        json!({ "cni.dev/valid-attachments": list })
    }
}

#[test]
fn nothing_is_given_twice_and_nothing_is_lost() {
    let seed = std::env::var("IPAM_DELEGATED_SEED").map_or(7, |seed| seed.parse().unwrap());
    let with_host_local = reference("host-local").is_some();
    if !with_host_local {
        harness::skip("host-local is not installed; it is tested without it");
    }
    let fire = Fire {
        sandbox: Sandbox::default().with_reference("host-local"),
        with_host_local,
        gc_runs_alone: RwLock::default(),
        known: Mutex::default(),
    };
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let fire = &fire;
            let rng = Rng::with_seed(seed + worker as u64);
            scope.spawn(move || fire.worker(worker, rng));
        }
    });

    let known = fire.known.into_inner().unwrap();
    let fire = Fire {
        known: Mutex::default(),
        ..fire
    };
    for what in ["added", "refused", "deleted", "checked", "collected"] {
        assert!(
            known.counts.get(what).is_some_and(|n| *n > 5),
            "{what}: {:?}",
            known.counts
        );
    }
    // By the files: every living address is reserved, and every other one belongs to a killed
    // call.
    let held = fire.held();
    for (ip, container) in &known.live {
        assert_eq!(held.get(ip), Some(container));
    }
    for (ip, container) in &held {
        let torn = container.is_empty() && fire.with_host_local;
        let explained = known.live.get(ip) == Some(container) || known.killed.contains(container);
        assert!(
            torn || explained,
            "{ip} is held by {container}, which nobody knows"
        );
    }
    // After one GC, exactly the living addresses are reserved.
    fire.age_torn_files();
    fire.call(false, "GC", "-", &known.valid_attachments())
        .run()
        .nothing();
    assert_eq!(fire.held(), known.live);
    // No file of a killed process is left.
    let mut names = names(fire.sandbox.data_dir().join("testnet"));
    names.retain(|name| name.parse::<std::net::IpAddr>().is_err());
    assert_eq!(names, ["last_reserved_ip.0", "lock"]);
    // All free addresses of the pool can be reserved.
    for n in known.live.len()..CAPACITY {
        fire.call(false, "ADD", &format!("filler-{n}"), &json!({}))
            .run()
            .result();
    }
    assert_eq!(fire.held().len(), CAPACITY);
    assert_eq!(
        fire.call(false, "ADD", "one-too-many", &json!({}))
            .run()
            .code(),
        11
    );
}
