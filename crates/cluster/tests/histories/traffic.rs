//! Callers on the nodes of a cluster. They add and delete containers, and record the answers.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cluster::Node;
use cni::{Attachment, Call, Environment, Error, IpConfig, NetworkConfig};
use fastrand::Rng;
use harness::{Address, Command, Operation, Outcome};
use serde_json::{Value, json};

use super::memory_store::{Cluster, Faults, MemoryStore};

/// The calls of all callers.
pub(crate) struct Traffic<'a> {
    cluster: &'a Cluster,
    faults: Faults,
    started: Instant,
    calls: Mutex<Vec<Operation>>,
    seed: AtomicU64,
}

/// `eth0` of a container.
pub(crate) fn attachment(container: &str) -> Attachment {
    Attachment {
        container_id: container.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

/// A call on the network `net`, with these keys of the configuration.
pub(crate) fn call<'a>(environment: &'a Environment, keys: &Value) -> Call<'a> {
    let mut config = json!({"cniVersion": "1.1.0", "name": "net", "ipam": {"type": "x"}});
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    let config = NetworkConfig::parse(serde_json::to_vec(&config).unwrap()).unwrap();
    Call::new(config, environment)
}

/// The pools of a caller.
pub(crate) fn pools_of(caller: usize) -> &'static [&'static str] {
    match caller.is_multiple_of(2) {
        true => &["blue"],
        false => &["blue", "green"],
    }
}

/// The entries of `prevResult.pools` for pools with these names.
pub(crate) fn entries(pools: &[&str]) -> Value {
    pools.iter().map(|name| json!({"name": name})).collect()
}

/// A node with this name, on the machine of the same name.
pub(crate) fn node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        machine: Some(format!("machine-of-{name}")),
    }
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(cluster: &'a Cluster, faults: Faults) -> Self {
        Self {
            cluster,
            faults,
            started: Instant::now(),
            calls: Mutex::default(),
            seed: AtomicU64::new(1),
        }
    }

    /// Time since the first call.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn calls(&self) -> Vec<Operation> {
        self.calls.lock().unwrap().clone()
    }

    fn store(&self) -> MemoryStore<'a> {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        self.cluster.store(self.faults, seed)
    }

    /// ADD. Returns the addresses.
    pub(crate) fn add(
        &self,
        node: &Node,
        container: &str,
        pools: &Value,
    ) -> Result<Vec<IpAddr>, Error> {
        let environment = Environment::default();
        let result = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
        let call = call(&environment, &json!({"prevResult": result}));
        let result = cluster::add(&mut self.store(), node, &attachment(container), &call)?;
        Ok(result.ips.iter().map(IpConfig::ip).collect())
    }

    /// DEL, with these keys of the configuration.
    pub(crate) fn del(&self, node: &Node, container: &str, keys: &Value) -> Result<(), Error> {
        let environment = Environment::default();
        let call = call(&environment, keys);
        cluster::del(&mut self.store(), node, &attachment(container), &call)
    }

    /// GC, with these containers as the valid ones.
    pub(crate) fn gc(&self, node: &Node, valid: &[String]) -> Result<(), Error> {
        let environment = Environment::default();
        let valid = valid.iter();
        let valid = valid.map(|id| json!({"containerID": id, "ifname": "eth0"}));
        let keys = json!({"cni.dev/valid-attachments": valid.collect::<Value>()});
        cluster::gc(&mut self.store(), node, &call(&environment, &keys))
    }

    /// A caller's ADDs with these numbers. After most of them, DEL is tried up to three times, with
    /// and without `prevResult`.
    pub(crate) fn run_caller(&self, node: &Node, caller: usize, numbers: Range<usize>) {
        let mut random = Rng::with_seed(caller as u64);
        let pools = pools_of(caller);
        let entries = entries(pools);
        let last = numbers.end - 1;
        for i in numbers {
            let machine = node.machine.as_ref().unwrap();
            let container = format!("{machine}.{caller}.{i}");
            let started = self.now();
            let added = self.add(node, &container, &entries);
            let ips = added.as_deref().unwrap_or_default().to_vec();
            let address = |(pool, ip): (&&str, &IpAddr)| Address {
                pool: (*pool).to_owned(),
                ip: *ip,
            };
            let outcome = match added {
                Err(_) => Outcome::Open,
                Ok(ips) => Outcome::Succeeded(pools.iter().zip(&ips).map(address).collect()),
            };
            self.push(node, &container, started, Command::Add(outcome));
            // The last container stays; some are lost without a DEL.
            if i == last || random.u8(..100) == 0 {
                continue;
            }
            let keys = match random.bool() {
                true => json!({}),
                false => {
                    let ips = ips.iter().map(|ip| json!({"address": format!("{ip}/24")}));
                    let ips: Value = ips.collect();
                    json!({"prevResult": {"cniVersion": "1.1.0", "ips": ips, "pools": entries}})
                }
            };
            for _ in 0..3 {
                let started = self.now();
                let outcome = match self.del(node, &container, &keys) {
                    Ok(()) => Outcome::Succeeded(()),
                    Err(_) => Outcome::Open,
                };
                let is_done = outcome != Outcome::Open;
                self.push(node, &container, started, Command::Del(outcome));
                if is_done {
                    break;
                }
            }
        }
    }

    fn push(&self, node: &Node, container: &str, started: Duration, command: Command) {
        self.note(format!("{}/{container}:eth0", node.name), started, command);
    }

    /// Notes a call that has ended now.
    pub(crate) fn note(&self, attachment: String, started: Duration, command: Command) {
        self.calls.lock().unwrap().push(Operation {
            attachment,
            started,
            ended: self.now(),
            command,
        });
    }
}
