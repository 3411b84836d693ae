//! A Kubernetes cluster: a control plane and two nodes, each in separate namespaces.
//!
//! Its processes and mounts are in the namespaces. They end with the test, even if the test is
//! killed. Tests of one container runtime are steps on one cluster, since a start takes ten to
//! twenty seconds.

mod api;
mod control_plane;
mod faults;
mod machine;
mod pod_image;
mod pod_sandboxes;
mod pods;
mod requests;
mod runtime;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::waiting::wait_within;
use crate::{blocks, document, repository};
use control_plane::ControlPlane;

pub use api::{ApiProxy, Fate, KubernetesApi, ProxiedRequest};
pub(crate) use api::{answer, read_request};
pub use machine::KubernetesNode;
pub use pod_image::POD_IMAGE;
pub use pod_sandboxes::PodSandboxes;
pub use pods::{Pod, foreign_kind, kind_of_virtual_machines, pod, virtual_machine, workload};
pub use requests::Answer;
pub use runtime::ContainerRuntime;

/// The names of the nodes, as the manifests have them.
pub const NODES: [&str; 2] = ["worker-1", "worker-2"];

/// The pages whose commands are run.
const PAGES: [&str; 4] = [
    "docs/kubernetes.md",
    "docs/cluster.md",
    "docs/kubernetes-cluster-pool/README.md",
    "docs/dhcp.md",
];

/// Longest wait. The slowest step is the kubelet's, which removes an ended sandbox within one to two
/// minutes.
const PATIENCE: Duration = Duration::from_secs(150);

/// A running cluster. Its nodes have an empty `/etc/cni/net.d`.
pub struct KubernetesCluster {
    /// The nodes end before the network that joins them.
    nodes: Vec<KubernetesNode>,
    /// The API server, its etcd, and the controllers.
    pub control_plane: ControlPlane,
    root: TempDir,
    /// Commands of pages that were run.
    documented: Mutex<Vec<String>>,
}

impl KubernetesCluster {
    /// Starts a control plane and two nodes, and loads this image and [`POD_IMAGE`] on each
    /// node. Returns when the API server has the nodes. They aren't ready, because they have no
    /// network.
    ///
    /// # Errors
    ///
    /// Namespaces can't be made, or busybox isn't static.
    pub fn start(runtime: ContainerRuntime, image: &Path) -> Result<Self, String> {
        claim(&format!("a cluster with {runtime:?} starts"));
        let root = TempDir::with_prefix("ipam-delegated-kubernetes-").unwrap();
        let pod_image = pod_image::make(root.path()).map_err(|reason| reason.to_string())?;
        let control_plane = ControlPlane::launch(root.path(), None, &[])?;
        let nodes: Result<Vec<KubernetesNode>, String> = (0..NODES.len())
            .map(|number| KubernetesNode::new(number, runtime, root.path(), &control_plane))
            .collect();
        let mut cluster = Self {
            nodes: nodes?,
            control_plane,
            root,
            documented: Mutex::default(),
        };
        thread::scope(|scope| {
            for node in &mut cluster.nodes {
                let pod_image = &pod_image;
                scope.spawn(move || {
                    node.start_runtime();
                    node.load(pod_image);
                    node.load(image);
                });
            }
            cluster.control_plane.wait_until_ready();
        });
        cluster.control_plane.start_controllers();
        for node in &mut cluster.nodes {
            node.start_kubelet();
        }
        cluster.wait_for("the nodes", || {
            let nodes = cluster.objects("/api/v1/nodes");
            nodes.is_some_and(|nodes| nodes.len() == NODES.len())
        });
        cluster.wait_for("the service account", || {
            let account = "/api/v1/namespaces/default/serviceaccounts/default";
            cluster.control_plane.get(account).is_some()
        });
        Ok(cluster)
    }

    /// A folder that is removed with the cluster. All nodes see it at its path.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A node, by its number from 0.
    pub fn node(&self, number: usize) -> &KubernetesNode {
        &self.nodes[number]
    }

    /// A node, for starting its daemons.
    pub fn node_mut(&mut self, number: usize) -> &mut KubernetesNode {
        &mut self.nodes[number]
    }

    /// A node, by its name.
    #[track_caller]
    pub fn node_named(&self, name: &str) -> &KubernetesNode {
        let node = self.nodes.iter().find(|node| node.name() == name);
        node.unwrap_or_else(|| panic!("no node {name}"))
    }

    /// All nodes.
    pub fn nodes(&self) -> &[KubernetesNode] {
        &self.nodes
    }

    /// Cuts a node's power: its processes, memory and namespaces disappear.
    pub fn cut_power(&mut self, number: usize) {
        self.nodes[number].cut_power(&self.control_plane);
    }

    /// Boots a node after [`Self::cut_power`], with a new boot ID.
    pub fn boot(&mut self, number: usize) {
        self.boot_without_kubelet(number);
        self.nodes[number].start_kubelet();
    }

    /// As [`Self::boot`], with the container runtime only.
    pub fn boot_without_kubelet(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.boot(&self.control_plane).unwrap();
        node.start_runtime();
    }

    /// The endpoint of the cluster's etcd, which requires no certificate.
    pub fn etcd(&self) -> String {
        control_plane::ETCD.to_owned()
    }

    /// The administrator's kubeconfig. Its path is the same on all nodes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig()
    }

    /// A command that runs in `docs/kubernetes` as an administrator of the cluster.
    pub fn command(&self, script: &str) -> Command {
        let mut command = self.control_plane.node().command("bash");
        // The working directory is lost in another mount namespace.
        let script = format!("cd {}\n{script}", Self::manifests().display());
        command
            .args(["-ec", &script])
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            // kubectl caches the kinds by the server's address, which all clusters have.
            .env("HOME", self.root());
        command
    }

    /// The folder of the manifests.
    pub fn manifests() -> PathBuf {
        repository().join("docs/kubernetes")
    }

    /// Runs a command, which may fail.
    pub fn try_sh(&self, script: &str) -> Output {
        self.command(script).output().unwrap()
    }

    /// True if the command succeeds.
    pub fn succeeds(&self, script: &str) -> bool {
        self.try_sh(script).status.success()
    }

    /// Runs a command such as `kubectl get pods`; returns its stdout.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let output = self.try_sh(script);
        assert!(output.status.success(), "{script}\n{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs commands of a page, in the folder to which their paths are relative.
    #[track_caller]
    pub fn as_documented(&self, commands: &[&str]) -> String {
        self.as_documented_with(commands, &[])
    }

    /// Runs commands of a page, after words of them were replaced with values.
    #[track_caller]
    pub fn as_documented_with(&self, commands: &[&str], values: &[(&str, &str)]) -> String {
        let pages = PAGES.map(document);
        for command in commands {
            let is_in_one = pages.iter().any(|page| page.contains(command));
            assert!(is_in_one, "in no page: {command}");
        }
        let run = commands.iter().map(|command| (*command).to_owned());
        self.documented.lock().unwrap().extend(run);
        let with_value = |script: String, (word, value): &(&str, &str)| script.replace(word, value);
        let script = values.iter().fold(commands.join("\n"), with_value);
        if script.contains(" docs/") {
            self.sh(&format!("cd {}\n{script}", repository().display()))
        } else {
            self.sh(&script)
        }
    }

    /// The lines of a page's blocks without a language that were not run on this cluster.
    pub fn not_run(&self, page: &str) -> Vec<String> {
        let run = self.documented.lock().unwrap();
        let was_run = |line: &str| run.iter().any(|command| line.starts_with(command));
        let blocks = blocks(&document(page), "");
        let lines = blocks.iter().flat_map(|block| block.lines());
        let others = lines.filter(|line| !was_run(line));
        others.map(str::to_owned).collect()
    }

    /// The lines of a command's stdout; empty if it fails.
    pub fn lines(&self, script: &str) -> Vec<String> {
        let output = self.try_sh(script);
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(str::to_owned).collect()
    }

    /// Applies a manifest.
    #[track_caller]
    pub fn apply(&self, manifest: &str) {
        let file = self.root().join("manifest.yaml");
        fs::write(&file, manifest).unwrap();
        self.sh(&format!("kubectl apply -f {}", file.display()));
    }

    /// Applies several objects.
    #[track_caller]
    pub fn apply_all(&self, items: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.apply(&list.to_string());
    }

    /// Creates a namespace, and waits until pods can be created in it.
    pub fn make_namespace(&self, name: &str) {
        self.sh(&format!("kubectl create namespace {name}"));
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        self.wait_for(&account, || self.control_plane.get(&account).is_some());
    }

    /// The objects at this path of the API server, such as `/api/v1/pods`; `None` if they can't be
    /// listed.
    pub fn objects(&self, path: &str) -> Option<Vec<Value>> {
        match self.control_plane.get(path)?["items"].take() {
            Value::Array(objects) => Some(objects),
            _ => None,
        }
    }

    /// The names of the nodes that are ready; empty if the API server doesn't answer.
    pub fn ready_nodes(&self) -> Vec<String> {
        let nodes = self.objects("/api/v1/nodes").unwrap_or_default();
        let ready = nodes.iter().filter(|node| pods::is_ready(node));
        let names = ready.filter_map(|node| node["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// Waits until all nodes are ready.
    #[track_caller]
    pub fn wait_for_ready_nodes(&self) {
        self.wait_for("all nodes are ready", || self.ready_nodes() == NODES);
    }

    /// Waits until `holds` is true.
    #[track_caller]
    pub fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        self.wait_for_none(what, || if holds() { Vec::new() } else { vec!["no"] });
    }

    /// Waits until `missing` is empty.
    #[track_caller]
    pub fn wait_for_none<T: Debug>(&self, what: &str, missing: impl Fn() -> Vec<T>) {
        if !wait_within(PATIENCE, || missing().is_empty()) {
            let (missing, state) = (missing(), self.state());
            panic!("it didn't come within {PATIENCE:?}: {what}: {missing:#?}\n{state}");
        }
    }

    /// State of the cluster for a failure message.
    fn state(&self) -> String {
        let looks = "kubectl get nodes,pods,daemonsets --all-namespaces -o wide
            kubectl get events --all-namespaces --sort-by=.lastTimestamp | tail -n 30";
        let said = self.try_sh(looks);
        let mut state = String::from_utf8_lossy(&said.stdout).into_owned();
        for node in &self.nodes {
            state += &node.log_tails();
        }
        state
    }
}

/// Prints the next claim that is checked, and the seconds since the first one of this process.
pub fn claim(text: &str) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let seconds = FIRST.get_or_init(Instant::now).elapsed().as_secs();
    eprintln!("claim at {seconds} s: {text}");
}
