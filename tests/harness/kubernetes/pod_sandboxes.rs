//! A container runtime without Kubernetes: `crictl` makes pod sandboxes, and removes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::machine::{boot, make_disk, start_daemon};
use super::pod_image;
use super::runtime::ContainerRuntime;
use crate::kubernetes_programs;
use crate::runtimes::conflist;
use crate::waiting::wait_or_say;
use crate::{Background, Cgroup, Node, PLUGINS, Sandbox, skip};

/// A runtime on a test node, with the network `testnet`. All of its processes end with the node.
pub struct PodSandboxes {
    node: Node,
    runtime: ContainerRuntime,
    /// The plugins' folders, as in other tests. Its plugins are copied into the node's folder.
    pub sandbox: Sandbox,
    _daemon: Background,
    _cgroup: Cgroup,
    _disk: TempDir,
}

impl PodSandboxes {
    /// Starts the runtime with a network of these rules and delegates. Reports and returns `None` if
    /// the machine can't run it.
    pub fn new(
        runtime: ContainerRuntime,
        sandbox: Sandbox,
        rules: &Value,
        delegates: &[&str],
    ) -> Option<Self> {
        let disk = TempDir::new().unwrap();
        let image = pod_image::make(disk.path());
        let image = image.map_err(|reason| crate::skip_for(&reason)).ok()?;
        make_disk_with_network(disk.path(), runtime, &sandbox, rules, delegates);
        let cgroup = Cgroup::named(sandbox.root().file_name()?.to_str()?);
        let node = boot(disk.path(), &cgroup, "");
        let node = node.map_err(|reason| skip(&reason)).ok()?;
        let log = sandbox.root().join("runtime.log");
        let daemon = start_daemon(&node, runtime, "runtime", &runtime.command_line(), &log);
        let pods = Self {
            node,
            runtime,
            sandbox,
            _daemon: daemon,
            _cgroup: cgroup,
            _disk: disk,
        };
        pods.wait_for_runtime();
        pods.must(&runtime.load(&image));
        Some(pods)
    }

    fn wait_for_runtime(&self) {
        let answers = || self.sh(&self.crictl("version")).status.success();
        wait_or_say(answers, || {
            fs::read_to_string(self.log()).unwrap_or_default()
        });
    }

    fn log(&self) -> PathBuf {
        self.sandbox.root().join("runtime.log")
    }

    /// Starts a pod sandbox; returns its ID.
    #[track_caller]
    pub fn start(&self, name: &str) -> String {
        let pod = json!({
            "metadata": {"name": name, "uid": name, "namespace": "shop", "attempt": 1},
            "log_directory": "/var/log",
            "linux": {"cgroup_parent": "/pods"},
        });
        let file = self.sandbox.root().join("pod.json");
        fs::write(&file, pod.to_string()).unwrap();
        self.must(&self.crictl(&format!("runp {}", file.display())))
    }

    /// Stops a pod sandbox, which runs DEL. The runtime may report its failure.
    pub fn stop(&self, id: &str) -> Output {
        self.sh(&self.crictl(&format!("stopp {id}")))
    }

    /// Removes a pod sandbox.
    #[track_caller]
    pub fn remove(&self, id: &str) {
        self.must(&self.crictl(&format!("rmp --force {id}")));
    }

    fn crictl(&self, words: &str) -> String {
        let crictl = kubernetes_programs().unwrap().join("crictl");
        let socket = self.runtime.socket();
        format!(
            "{} --timeout=120s --runtime-endpoint=unix://{socket} {words}",
            crictl.display()
        )
    }

    fn sh(&self, script: &str) -> Output {
        let mut command = self.node.command("bash");
        command
            .args(["-ec", script])
            .env("PATH", self.runtime.path());
        command.output().unwrap()
    }

    #[track_caller]
    fn must(&self, script: &str) -> String {
        let output = self.sh(script);
        let log = || fs::read_to_string(self.log()).unwrap_or_default();
        assert!(output.status.success(), "{script}\n{output:?}\n{}", log());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// Creates the folders of the node: configuration, plugins, conflist.
fn make_disk_with_network(
    disk: &Path,
    runtime: ContainerRuntime,
    sandbox: &Sandbox,
    rules: &Value,
    delegates: &[&str],
) {
    make_disk(disk, runtime, &["bridge", "loopback"]);
    let plugins = disk.join("opt/cni/bin");
    for name in PLUGINS.iter().chain(delegates) {
        fs::copy(sandbox.plugins().join(name), plugins.join(name)).unwrap();
    }
    let mut conflist = conflist(sandbox, rules);
    conflist["plugins"][0]["ipam"]["delegates"] = json!(delegates);
    let file = disk.join("etc/cni/net.d/10-testnet.conflist");
    fs::write(file, conflist.to_string()).unwrap();
}
