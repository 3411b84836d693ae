//! containerd with runc, driven by `ctr run --cni`: rules select a pool by the container's ID.
//! `ctr` passes only the ID, `<namespace>-<ID>`: no `CNI_ARGS`, labels or annotations.
//!
//! ctr's folders are fixed. So `/etc` and its plugin folders are private to a test node.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::{
    BUSYBOX, Cgroup, Node, REFERENCE_PLUGINS, Sandbox, make_rootfs, needs, skip, skip_for,
};
use serde_json::{Value, json};

use crate::runtimes::{address_in, conflist, reservation};

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

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
pub(crate) struct Containerd {
    node: Node,
    pub(crate) cgroup: Cgroup,
    pub(crate) sandbox: Sandbox,
    daemon: Child,
}

impl Containerd {
    /// containerd with the network `testnet` and these rules. Reports and returns `None` if it
    /// can't run a container on this machine.
    pub(crate) fn new(rules: &Value) -> Option<Self> {
        let test = "with_containerd";
        let node = match Node::with_own_processes() {
            Ok(node) => node,
            Err(reason) => {
                skip(test, &reason);
                return None;
            }
        };
        let sandbox = Sandbox::default();
        if let Err(reason) = make_rootfs(&sandbox.root().join("rootfs")) {
            skip_for(test, &reason);
            return None;
        }
        configure(&node, &sandbox, rules);
        let name = sandbox.root().file_name().unwrap().to_str().unwrap();
        let cgroup = Cgroup::named(name);
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
            skip(
                test,
                &format!("containerd can't run a container here: {reason}"),
            );
            return None;
        }
        Some(containerd)
    }

    /// Waits for the daemon, and runs a container without a network.
    fn probe(&self) -> Result<(), String> {
        let run = || self.ctr("default", &["version"]).output().unwrap();
        let said = |output: std::process::Output| {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        };
        let started = Instant::now();
        loop {
            let output = run();
            if output.status.success() {
                break;
            }
            if started.elapsed() > PATIENCE {
                return said(output);
            }
            sleep(Duration::from_millis(20));
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
    pub(crate) fn ctr(&self, namespace: &str, arguments: &[&str]) -> Command {
        let mut command = self.node.command("ctr");
        command
            .args(["--address", SOCKET, "--namespace", namespace])
            .args(arguments)
            .env_remove("CNI_ARGS")
            .stdin(Stdio::null());
        command
    }

    /// `ctr run` with these options.
    fn run(&self, namespace: &str, id: &str, options: &[&str], process: &[&str]) -> Command {
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
    fn start(&self, namespace: &str, id: &str, options: &[&str]) -> Child {
        let options = [&["--cni"], options].concat();
        let mut run = self.run(namespace, id, &options, &["/bin/sleep", "1000"]);
        let run = run.stderr(Stdio::piped()).spawn().unwrap();
        let is_running = || {
            let tasks = self.must(namespace, &["task", "ls"]);
            tasks
                .lines()
                .any(|line| line.starts_with(id) && line.contains("RUNNING"))
        };
        wait_until(&format!("{namespace}/{id} is running"), is_running);
        run
    }

    /// Kills a container, and waits for the end of its `ctr run`.
    #[track_caller]
    fn kill(&self, namespace: &str, id: &str, mut run: Child) {
        self.must(namespace, &["task", "kill", "--signal=KILL", id]);
        run.wait().unwrap();
    }

    /// Runs a ctr command that must succeed; returns its stdout.
    #[track_caller]
    pub(crate) fn must(&self, namespace: &str, arguments: &[&str]) -> String {
        let output = self.ctr(namespace, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The address of a container, read inside it.
    #[track_caller]
    fn address(&self, namespace: &str, id: &str) -> String {
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

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn container_ids_lead_to_two_pools_and_to_a_pinned_address() {
    needs!(
        "root",
        "bridge",
        "/usr/bin/containerd",
        "/usr/bin/ctr",
        "/usr/sbin/runc",
        BUSYBOX
    );
    let rules = json!([
        {"when": {"containerID": "prod-db-0"}, "pools": ["db"], "ip": "10.77.2.10"},
        {"when": {"containerID": "prod-*"}, "pools": ["db"]},
        {"when": {"containerID": "default-web"}, "pools": ["web"]},
    ]);
    let Some(containerd) = Containerd::new(&rules) else {
        return;
    };
    let web = containerd.start("default", "web", &[]);
    // The pinned address is the first of the pool, and is kept free for its container.
    let other = containerd.start("prod", "db-1", &[]);
    let pinned = containerd.start("prod", "db-0", &[]);
    assert_eq!(containerd.address("default", "web"), "10.77.1.10/16");
    assert_eq!(containerd.address("prod", "db-0"), "10.77.2.10/16");
    assert_eq!(containerd.address("prod", "db-1"), "10.77.2.11/16");
    let sandbox = &containerd.sandbox;
    let expected = [reservation("10.77.1.10", "default-web")];
    assert_eq!(sandbox.reservations("web"), expected);
    let expected = [
        reservation("10.77.2.10", "prod-db-0"),
        reservation("10.77.2.11", "prod-db-1"),
    ];
    assert_eq!(sandbox.reservations("db"), expected);
    assert_eq!(sandbox.records("testnet").len(), 3);

    // For a container in the foreground, ctr calls DEL without the network namespace.
    containerd.kill("default", "web", web);
    assert!(sandbox.reservations("web").is_empty());
    containerd.kill("prod", "db-0", pinned);
    assert_eq!(
        sandbox.reservations("db"),
        [reservation("10.77.2.11", "prod-db-1")]
    );
    containerd.kill("prod", "db-1", other);
    assert!(sandbox.reservations("db").is_empty());
    assert!(sandbox.records("testnet").is_empty());
}

#[test]
fn ctr_passes_neither_labels_nor_annotations() {
    needs!(
        "root",
        "bridge",
        "/usr/bin/containerd",
        "/usr/bin/ctr",
        "/usr/sbin/runc",
        BUSYBOX
    );
    let rules = json!([
        {"when": {"label:pool": "web"}, "pools": ["web"]},
        {"when": {"pool": "web"}, "pools": ["web"]},
        {"when": {"annotation:pool": "db"}, "pools": ["db"]},
        {"pools": ["rest"]},
    ]);
    let Some(containerd) = Containerd::new(&rules) else {
        return;
    };
    let options = ["--label=pool=web", "--annotation=pool=db"];
    let run = containerd.start("default", "one", &options);
    assert_eq!(containerd.address("default", "one"), "10.77.3.10/16");
    containerd.kill("default", "one", run);
    assert!(containerd.sandbox.reservations("rest").is_empty());
}
