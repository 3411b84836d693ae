//! Callers on the nodes of a cluster. They add and delete containers, and record the answers.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cluster::restore::{clear_mark, mark, reconcile_address};
use cluster::{DefinedPools, HeldKey, Identity, Node, address};
use cni::{Attachment, Call, Environment, Error, NetworkConfig};
use fastrand::Rng;
use harness::{Address, Command, Operation, Outcome};
use serde_json::{Value, json};

use super::memory_engine::{Faults, MemoryEngine, Store};

/// The calls of all callers.
pub(crate) struct Traffic<'a> {
    store: &'a Store,
    faults: Faults,
    started: Instant,
    calls: Mutex<Vec<Operation>>,
    seed: AtomicU64,
}

/// A caller on a node.
pub(crate) struct Caller<'a> {
    traffic: &'a Traffic<'a>,
    node: &'a Node,
    environment: &'a Environment,
    number: usize,
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

impl<'a> Traffic<'a> {
    pub(crate) fn new(store: &'a Store, faults: Faults) -> Self {
        Self {
            store,
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

    /// All calls.
    pub(crate) fn calls(&self) -> Vec<Operation> {
        self.calls.lock().unwrap().clone()
    }

    fn engine(&self, faults: Faults) -> MemoryEngine<'a> {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        MemoryEngine::new(self.store, faults, seed)
    }

    /// GC on a node, with these containers as the valid ones.
    pub(crate) fn try_collect(
        &self,
        node: &Node,
        environment: &Environment,
        valid: &[String],
    ) -> Result<(), Error> {
        let valid = valid.iter();
        let valid = valid.map(|id| json!({"containerID": id, "ifname": "eth0"}));
        let keys = json!({"cni.dev/valid-attachments": valid.collect::<Value>()});
        let call = call(environment, &keys);
        address::gc(&mut self.engine(Faults::default()), node, &call)
    }

    /// As [`Self::try_collect`], but panics if GC fails.
    pub(crate) fn collect(&self, node: &Node, environment: &Environment, valid: &[String]) {
        self.try_collect(node, environment, valid).unwrap();
    }

    /// Claims this address of a node again, and clears the node's mark.
    pub(crate) fn reconcile(
        &self,
        node: &Node,
        environment: &Environment,
        container: &str,
        pool: &str,
        ip: IpAddr,
    ) {
        let engine = &mut self.engine(Faults::default());
        let mut identity = Identity::of(node, environment, engine).unwrap();
        let held = HeldKey {
            node: node.name.clone(),
            network: "net".parse().unwrap(),
            attachment: attachment(container),
            pool: pool.parse().unwrap(),
            ip,
        };
        let pools = &mut DefinedPools::read(engine).unwrap();
        reconcile_address(engine, &mut identity, pools, &held, || true).unwrap();
        let mark = mark(engine, &node.name).unwrap().unwrap();
        assert!(clear_mark(engine, &mark).unwrap());
    }
}

impl<'a> Caller<'a> {
    pub(crate) fn new(
        traffic: &'a Traffic<'a>,
        node: &'a Node,
        environment: &'a Environment,
        number: usize,
    ) -> Self {
        Self {
            traffic,
            node,
            environment,
            number,
        }
    }

    /// ADD. Returns the addresses.
    pub(crate) fn add(&self, container: &str, pools: &[&str]) -> Result<Vec<IpAddr>, Error> {
        let pools: Value = pools.iter().map(|name| json!({"name": name})).collect();
        let result = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
        let call = call(self.environment, &json!({"prevResult": result}));
        let engine = &mut self.traffic.engine(self.traffic.faults);
        let result = address::add(engine, self.node, &attachment(container), &call)?;
        Ok(result.ips.iter().map(cni::IpConfig::ip).collect())
    }

    fn del(&self, container: &str) -> Result<(), Error> {
        let call = call(self.environment, &json!({}));
        let engine = &mut self.traffic.engine(self.traffic.faults);
        address::del(engine, self.node, &attachment(container), &call)
    }

    /// Runs this number of ADDs. After most of them, DEL is tried up to three times.
    pub(crate) fn call(&self, number: usize) {
        let mut random = Rng::with_seed(self.number as u64);
        let pools: &[&str] = match self.number % 2 {
            0 => &["blue"],
            _ => &["blue", "green"],
        };
        for i in 0..number {
            let container = format!("c{}-{i}", self.number);
            let started = self.traffic.now();
            let outcome = match self.add(&container, pools) {
                Err(_) => Outcome::Open,
                Ok(ips) => Outcome::Succeeded(
                    (pools.iter().zip(ips))
                        .map(|(pool, ip)| Address {
                            pool: (*pool).to_owned(),
                            ip,
                        })
                        .collect(),
                ),
            };
            self.push(&container, started, Command::Add(outcome));
            // The last container stays; some are lost without a DEL.
            if i + 1 == number || random.u8(..100) == 0 {
                continue;
            }
            for _ in 0..3 {
                let started = self.traffic.now();
                let outcome = match self.del(&container) {
                    Ok(()) => Outcome::Succeeded(()),
                    Err(_) => Outcome::Open,
                };
                let is_done = outcome != Outcome::Open;
                self.push(&container, started, Command::Del(outcome));
                if is_done {
                    break;
                }
            }
        }
    }

    fn push(&self, container: &str, started: Duration, command: Command) {
        self.traffic.calls.lock().unwrap().push(Operation {
            attachment: format!("{}/{container}:eth0", self.node.name),
            started,
            ended: self.traffic.now(),
            command,
        });
    }
}
