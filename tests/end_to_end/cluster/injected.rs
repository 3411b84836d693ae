//! Runs a plugin of a cluster through strace: it is killed, or one of its system calls fails.

use std::fs;
use std::path::Path;

use harness::{Call, Output};
use serde_json::{Value, json};

use super::pool_cluster::PoolCluster;
use crate::kill_points::ALL;
use crate::killed::{Point, STRACE, points};

/// System calls with an effect outside of the process, and those between the request and its
/// answer. A kill before any other system call has the same result as before the next one of
/// these.
const WITH_EFFECT: [&str; 13] = [
    "connect",
    "epoll_wait",
    "exit_group",
    "flock",
    "fsync",
    "mkdir",
    "recvfrom",
    "renameat",
    "renameat2",
    "sendto",
    "unlinkat",
    "write",
    "writev",
];

/// A plugin, called without the chain.
pub(super) struct Victim<'a> {
    pub(super) cluster: &'a dyn PoolCluster,
    pub(super) plugin: &'static str,
    pub(super) config: Value,
}

impl<'a> Victim<'a> {
    /// A plugin on a node, with these pools as the selector's choice.
    pub(super) fn new(
        cluster: &'a dyn PoolCluster,
        plugin: &'static str,
        node: &str,
        pools: &Value,
    ) -> Victim<'a> {
        let mut config = cluster.config(node, &[plugin], pools);
        config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
        Self {
            cluster,
            plugin,
            config,
        }
    }

    /// The same plugin with a shorter timeout for etcd: it retries a failing request until then.
    pub(super) fn impatient(&self) -> Self {
        let mut config = self.config.clone();
        config = self.cluster.within("3s", &config);
        Self { config, ..*self }
    }

    /// Sets the valid attachments of its GC.
    pub(super) fn with_valid(mut self, containers: &[&str]) -> Self {
        let valid = containers
            .iter()
            .map(|id| json!({"containerID": id, "ifname": "eth0"}));
        self.config["cni.dev/valid-attachments"] = valid.collect();
        self
    }

    pub(super) fn call(&self, command: &str, container: &str) -> Call {
        let call = self
            .cluster
            .sandbox()
            .call(self.plugin, command, &self.config);
        call.container(container)
    }

    /// Runs it.
    pub(super) fn run(&self, command: &str, container: &str) -> Output {
        self.call(command, container).run()
    }

    fn traced(&self, command: &str, container: &str, trace: &Path, expression: &str) -> Output {
        let trace = trace.to_str().unwrap();
        let strace = [STRACE, "-qq", "-o", trace, "-e", expression];
        self.call(command, container).through(&strace).run()
    }

    /// Runs it, and returns its system calls.
    pub(super) fn points(&self, command: &str, container: &str) -> Vec<Point> {
        let trace = self.cluster.sandbox().root().join("trace");
        let output = self.traced(command, container, &trace, "trace=all");
        assert!(output.status.success(), "{output:?}");
        let mut points = points(&trace);
        fs::remove_file(trace).unwrap();
        if std::env::var_os(ALL).is_none() {
            points.retain(|point| WITH_EFFECT.contains(&point.name.as_str()));
        }
        assert!(points.len() > 10, "{points:?}");
        points
    }

    /// Runs it with this strace injection.
    pub(super) fn injected(&self, command: &str, container: &str, expression: &str) -> Output {
        self.traced(command, container, Path::new("/dev/null"), expression)
    }
}
