//! containerd on a test node, with a network whose rules select a pool.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::rootfs::place_for_containers;
use crate::{Cgroup, Node, REFERENCE_PLUGINS, Sandbox, needs, skip};
use serde_json::Value;

use crate::runtimes::{address_in, conflist};
use crate::waiting::{PATIENCE, wait_or_say, wait_within};

/// The socket, in a folder that is private to the node.
const SOCKET: &str = "/run/test-containerd/containerd.sock";

/// containerd's configuration. Its Kubernetes plugin would need further configuration.
const CONFIGURATION: &str = r#"
version = 2
root = "/var/lib/test-containerd"
state = "/run/test-containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "/run/test-containerd/containerd.sock"
"#;

/// containerd on a test node. All of its processes end with the node.
pub struct Containerd {
    node: Node,
    /// The parent of its containers' control groups.
    pub cgroup: Cgroup,
    /// Its plugins and folders.
    pub sandbox: Sandbox,
    daemon: Child,
}

impl Containerd {
    /// containerd with the network `testnet` and these rules. Reports and returns `None` if it
    /// can't run a container on this machine.
    pub fn new(rules: &Value) -> Option<Self> {
        needs!(
            "bridge",
            "/usr/bin/containerd",
            "/usr/bin/ctr",
            "/usr/sbin/runc"
        );
        let (node, sandbox, cgroup) = place_for_containers()?;
        configure(&node, &sandbox, rules);
        let log = fs::File::create(sandbox.root().join("containerd.log")).unwrap();
        let mut daemon = node.command("containerd");
        daemon
            .arg("--config")
            .arg(sandbox.root().join("containerd.toml"));
        let daemon = daemon.stderr(log).stdin(Stdio::null()).spawn().unwrap();
        let containerd = Self {
            node,
            cgroup,
            sandbox,
            daemon,
        };
        if let Err(reason) = containerd.probe() {
            skip(&format!("containerd can't run a container here: {reason}"));
            return None;
        }
        Some(containerd)
    }

    /// Waits for the daemon, and runs a container without a network.
    fn probe(&self) -> Result<(), String> {
        let said = |output: std::process::Output| {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        };
        let version = || self.ctr("default", &["version"]).output().unwrap();
        if !wait_within(PATIENCE, || version().status.success()) {
            return said(version());
        }
        let mut probe = self.run("default", "probe", &["--rm"], &["/bin/true"]);
        let output = probe.output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            said(output)
        }
    }

    /// A ctr command in a containerd namespace.
    pub fn ctr(&self, namespace: &str, arguments: &[&str]) -> Command {
        let mut command = self.node.command("ctr");
        command
            .args(["--address", SOCKET, "--namespace", namespace])
            .args(arguments)
            .env_remove("CNI_ARGS")
            .stdin(Stdio::null());
        command
    }

    /// `ctr run` with these options.
    pub fn run(&self, namespace: &str, id: &str, options: &[&str], process: &[&str]) -> Command {
        let rootfs = self.sandbox.root().join("rootfs");
        let cgroup = format!("{}/{namespace}-{id}", self.cgroup.path());
        let mut command = self.ctr(namespace, &["run", "--null-io", "--cgroup", &cgroup]);
        command
            .args(options)
            .arg("--rootfs")
            .arg(rootfs)
            .arg(id)
            .args(process);
        command
    }

    /// Starts a container on the network, and waits until it is running.
    #[track_caller]
    pub fn start(&self, namespace: &str, id: &str, options: &[&str]) -> Child {
        let options = [&["--cni"], options].concat();
        let mut run = self.run(namespace, id, &options, &["/bin/sleep", "1000"]);
        let run = run.stderr(Stdio::piped()).spawn().unwrap();
        let is_running = || {
            let tasks = self.must(namespace, &["task", "ls"]);
            tasks
                .lines()
                .any(|line| line.starts_with(id) && line.contains("RUNNING"))
        };
        wait_or_say(is_running, || format!("{namespace}/{id} isn't running"));
        run
    }

    /// Kills a container, and waits for the end of its `ctr run`.
    #[track_caller]
    pub fn kill(&self, namespace: &str, id: &str, mut run: Child) {
        self.must(namespace, &["task", "kill", "--signal=KILL", id]);
        run.wait().unwrap();
    }

    /// Runs a ctr command that must succeed; returns its stdout.
    #[track_caller]
    pub fn must(&self, namespace: &str, arguments: &[&str]) -> String {
        let output = self.ctr(namespace, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The address of a container, read inside it.
    #[track_caller]
    pub fn address(&self, namespace: &str, id: &str) -> String {
        let show = ["/bin/ip", "-4", "-o", "addr", "show", "dev", "eth0"];
        let exec = ["task", "exec", "--exec-id=show", id];
        address_in(&self.must(namespace, &[&exec[..], &show].concat()))
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Installs the conflist and the plugins in ctr's folders.
fn configure(node: &Node, sandbox: &Sandbox, rules: &Value) {
    let root = sandbox.root();
    fs::write(root.join("containerd.toml"), CONFIGURATION).unwrap();
    let conflist = conflist(sandbox, rules).to_string();
    fs::write(root.join("testnet.conflist"), conflist).unwrap();
    let bridge = Path::new(REFERENCE_PLUGINS).join("bridge");
    fs::copy(bridge, sandbox.plugins().join("bridge")).unwrap();
    node.sh(&format!(
        "mkdir /run/etc; cp -a /etc/. /run/etc; mount --bind /run/etc /etc
        rm -rf /etc/cni; mkdir -p /etc/cni/net.d; cp {conflist} /etc/cni/net.d
        if [ -d /opt/cni/bin ]; then mount -t tmpfs none /opt/cni/bin; fi
        mount --bind {plugins} {REFERENCE_PLUGINS}",
        conflist = root.join("testnet.conflist").display(),
        plugins = sandbox.plugins().display(),
    ));
}
