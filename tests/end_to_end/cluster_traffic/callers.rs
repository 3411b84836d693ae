//! Callers of a cluster's nodes: they add and delete containers on end, and write down what
//! they see.

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, panicking, sleep};
use std::time::{Duration, Instant};

use fastrand::Rng;
use harness::{
    Address, Call, Cluster, Command, Flavour, History, Namespace, Observation, Operation, Outcome,
    Sandbox,
};
use rustix::process::nice;
use serde_json::{Value, json};

/// The network of all nodes.
pub(crate) const NETWORK: &str = "testnet";

/// The longest that callers are waited for, on a machine with other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node: a name, and folders of its own.
pub(crate) struct ClusterNode {
    pub(crate) name: String,
    pub(crate) sandbox: Sandbox,
    /// The keys of `ipam`, besides the delegates and the pools.
    ipam: Value,
    delegates: &'static [&'static str],
}

impl ClusterNode {
    /// The node of this number. Its chain chooses pools by `ipam-ds-static`, and then runs
    /// these.
    pub(crate) fn new(
        number: usize,
        cluster: &Cluster,
        delegates: &'static [&'static str],
    ) -> Self {
        let name = format!("node-{number}");
        let mut etcd = cluster.config();
        // A caller soon tries again; a call must not outlast the fault that it has met.
        etcd["timeout"] = json!("2s");
        let sandbox = Sandbox::default().with_network_plugins(Flavour::Normal);
        etcd["cacheDir"] = json!(sandbox.root().join("etcd-cache"));
        etcd["stateDir"] = json!(sandbox.root().join("etcd"));
        let ipam = json!({"etcd": etcd, "node": name});
        Self {
            name,
            sandbox,
            ipam,
            delegates,
        }
    }

    /// So many nodes.
    pub(crate) fn several(
        count: usize,
        cluster: &Cluster,
        delegates: &'static [&'static str],
    ) -> Vec<Self> {
        let numbers = 0..count;
        numbers
            .map(|number| Self::new(number, cluster, delegates))
            .collect()
    }

    /// The configuration for an address of each of these pools.
    pub(crate) fn config(&self, pools: &[&str]) -> Value {
        let mut ipam = self.ipam.clone();
        ipam["pools"] = pools.iter().map(|name| json!({"name": name})).collect();
        let mut config = self.sandbox.config("1.1.0", self.delegates, &ipam);
        config["name"] = json!(NETWORK);
        config
    }

    pub(crate) fn call(&self, command: &str, container: &str, pools: &[&str]) -> Call {
        let config = self.config(pools);
        let call = self.sandbox.call("ipam-delegated", command, &config);
        call.container(container)
    }

    /// The attachment's name in the whole cluster.
    pub(crate) fn attachment(&self, container: &str) -> String {
        format!("{}/{NETWORK}/{container}:eth0", self.name)
    }

    /// The containers of this node among these attachments.
    pub(crate) fn containers_of<T: AsRef<str>>(&self, attachments: &[T]) -> Vec<String> {
        let below = format!("{}/{NETWORK}/", self.name);
        let attachments = attachments.iter().map(AsRef::as_ref);
        let of_node = attachments.filter_map(|attachment: &str| attachment.strip_prefix(&below));
        of_node
            .map(|container| container.replace(":eth0", ""))
            .collect()
    }

    /// GC with these containers as the valid ones.
    pub(crate) fn collect(&self, valid: &[String], pools: &[&str]) -> Call {
        let mut config = self.config(pools);
        let valid = valid.iter();
        let valid = valid.map(|container| json!({"containerID": container, "ifname": "eth0"}));
        config["cni.dev/valid-attachments"] = valid.collect();
        self.sandbox.call("ipam-delegated", "GC", &config)
    }
}

/// The calls of all callers.
pub(crate) struct Traffic {
    pub(crate) clock: Instant,
    pub(crate) calls: Mutex<Vec<Operation>>,
    errors: Mutex<Vec<String>>,
    /// The moment at which it is over.
    over: OnceLock<Instant>,
    /// The test has failed: nobody needs the rest.
    failed: AtomicBool,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            clock: Instant::now(),
            calls: Mutex::default(),
            errors: Mutex::default(),
            over: OnceLock::new(),
            failed: AtomicBool::new(false),
        }
    }
}

/// Ends the traffic when it is dropped, also by a panic: the callers would go on for ever.
struct AtEnd<'a>(&'a Traffic);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        let _ = self.0.over.set(Instant::now());
        self.0.failed.store(panicking(), Ordering::Relaxed);
    }
}

impl Traffic {
    /// So many callers on each node call while `meanwhile` runs.
    pub(crate) fn run(
        &self,
        clients: &Namespace,
        nodes: &[ClusterNode],
        callers: usize,
        meanwhile: impl FnOnce(),
    ) {
        thread::scope(|scope| {
            let _at_end = AtEnd(self);
            for node in nodes {
                for caller in 0..callers {
                    scope.spawn(move || self.call_from(clients, node, caller));
                }
            }
            meanwhile();
        });
    }

    /// Collects on each node what its runtime has lost, and shows by the history, and by what
    /// is observed before and after that, that all is well. Returns the attachments that
    /// live, one for each caller, and what was observed last.
    pub(crate) fn judge(
        &self,
        cluster: &Cluster,
        nodes: &[ClusterNode],
        pools: &[&str],
        callers: usize,
        observe: impl Fn() -> Observation,
    ) -> (Vec<String>, Observation) {
        let calls = take(&mut *self.calls.lock().unwrap());
        let before = observe();
        let history = History::new(calls.clone(), Vec::new()).unwrap();
        let living = history.living();
        cluster.inside(|| {
            for node in nodes {
                let valid = node.containers_of(&living);
                node.collect(&valid, pools).run().nothing();
                assert_eq!(node.sandbox.records(NETWORK).len(), valid.len());
            }
        });
        let mut after = observe();
        after.collected = true;
        let (succeeded, all) = history.adds();
        println!(
            "{succeeded} of {all} ADDs succeeded; {} addresses before GC, {} after it, {} attachments live",
            before.addresses.len(),
            after.addresses.len(),
            living.len()
        );
        let living: Vec<String> = living.into_iter().map(str::to_owned).collect();
        let judged = History::new(calls, vec![before, after.clone()]).unwrap();
        let violations = judged.violations();
        let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{violations:#?}");
        let errors = self.last_errors();
        let expected = nodes.len() * callers;
        assert_eq!(
            living.len(),
            expected,
            "each caller leaves one: {errors:#?}"
        );
        (living, after)
    }

    /// The number of ADDs that have been called since then on nodes whose name starts with
    /// this, and have succeeded.
    pub(crate) fn adds_since(&self, from: Duration, on: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        let added = calls.iter().filter(|call| {
            matches!(call.command, Command::Add(Outcome::Succeeded(_)))
                && call.started >= from
                && call.attachment.starts_with(on)
        });
        added.count()
    }

    /// The last errors that callers were given.
    pub(crate) fn last_errors(&self) -> Vec<String> {
        let errors = self.errors.lock().unwrap();
        errors.iter().rev().take(5).cloned().collect()
    }

    /// Adds and deletes containers until it is over, and then adds one that stays.
    fn call_from(&self, clients: &Namespace, node: &ClusterNode, caller: usize) {
        clients.enter();
        // The members need the processor sooner than their clients, or they elect leaders
        // because they come too late.
        let _ = nice(10);
        let mut random = Rng::with_seed(caller as u64);
        let pools: &[&str] = if caller.is_multiple_of(2) {
            &["blue"]
        } else {
            &["blue", "green"]
        };
        for number in 0.. {
            let over = self.over.get();
            let container = format!("c{caller}-{number}");
            let added = match random.u8(..60) {
                0 if over.is_none() => self.killed_add(node, &container, pools, &mut random),
                _ => self.add(node, &container, pools),
            };
            let is_late = over.is_some_and(|over| over.elapsed() > PATIENCE);
            if over.is_some() && added || is_late || self.failed.load(Ordering::Relaxed) {
                return;
            }
            if added {
                sleep(Duration::from_millis(random.u64(..200)));
            }
            if added && random.u8(..100) == 0 {
                // The node has lost it, and nobody calls DEL.
                let now = self.clock.elapsed();
                self.push(node, &container, now, Command::Del(Outcome::Open));
            } else {
                self.delete(node, &container, pools, &mut random);
            }
        }
    }

    /// True if it succeeded.
    pub(crate) fn add(&self, node: &ClusterNode, container: &str, pools: &[&str]) -> bool {
        let started = self.clock.elapsed();
        let output = node.call("ADD", container, pools).run();
        let outcome = if output.status.success() {
            let addresses = pools.iter().zip(output.ips());
            let addresses = addresses.map(|(pool, ip)| Address {
                pool: (*pool).to_owned(),
                ip: ip.parse().unwrap(),
            });
            Outcome::Succeeded(addresses.collect())
        } else {
            self.note("ADD", &output.error());
            Outcome::Open
        };
        let added = outcome != Outcome::Open;
        self.push(node, container, started, Command::Add(outcome));
        added
    }

    /// An ADD whose process is killed, if it hasn't ended before.
    fn killed_add(
        &self,
        node: &ClusterNode,
        container: &str,
        pools: &[&str],
        random: &mut Rng,
    ) -> bool {
        let started = self.clock.elapsed();
        let after = Duration::from_millis(random.u64(..100));
        node.call("ADD", container, pools).run_and_kill(after);
        self.push(node, container, started, Command::Add(Outcome::Open));
        false
    }

    /// DEL, until it succeeds or nobody tries any more.
    fn delete(&self, node: &ClusterNode, container: &str, pools: &[&str], random: &mut Rng) {
        while !self.failed.load(Ordering::Relaxed) {
            let started = self.clock.elapsed();
            let output = node.call("DEL", container, pools).run();
            if output.status.success() {
                return self.push(
                    node,
                    container,
                    started,
                    Command::Del(Outcome::Succeeded(())),
                );
            }
            self.note("DEL", &output.error());
            self.push(node, container, started, Command::Del(Outcome::Open));
            if random.u8(..8) == 0 {
                return;
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn push(&self, node: &ClusterNode, container: &str, started: Duration, command: Command) {
        let ended = self.clock.elapsed();
        self.calls.lock().unwrap().push(Operation {
            attachment: node.attachment(container),
            started,
            ended,
            command,
        });
    }

    fn note(&self, command: &str, error: &Value) {
        let line = format!("{:.3?} {command}: {error}", self.clock.elapsed());
        self.errors.lock().unwrap().push(line);
    }
}
