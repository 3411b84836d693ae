//! podman on a test node, with a network whose rules select a pool.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::rootfs::{can_run, place_for_containers};
use crate::{Cgroup, Node, REFERENCE_PLUGINS, Sandbox, needs};
use serde_json::Value;

use crate::runtimes::{address_in, conflist};

/// podman on a test node. All of its processes end with the node.
pub struct Podman {
    /// Has its own mounts, network and processes.
    pub node: Node,
    /// The parent of its containers' control groups.
    pub cgroup: Cgroup,
    /// Its plugins and folders.
    pub sandbox: Sandbox,
}

impl Podman {
    /// podman with the network `testnet` and these rules. Reports and returns `None` if podman
    /// can't run a container on this machine.
    pub fn new(rules: &Value) -> Option<Self> {
        needs!("bridge", "/usr/bin/podman", "/usr/sbin/runc");
        let (node, sandbox, cgroup) = place_for_containers()?;
        // podman keeps its containers' locks in /dev/shm.
        node.sh("mount -t tmpfs none /dev/shm");
        let podman = Self {
            node,
            cgroup,
            sandbox,
        };
        podman.configure(rules);
        let probe = podman.run(&["--rm", "--network=none"], "probe", &["/bin/true"]);
        can_run("podman", &probe).then_some(podman)
    }

    fn configure(&self, rules: &Value) {
        let root = self.sandbox.root();
        fs::create_dir(root.join("net.d")).unwrap();
        let conflist = conflist(&self.sandbox, rules).to_string();
        fs::write(root.join("net.d/testnet.conflist"), conflist).unwrap();
        write_settings(&self.sandbox, &root.join("net.d"));
    }

    /// A command of podman.
    pub fn command(&self, arguments: &[&str]) -> Command {
        podman_command(&self.node, &self.sandbox, arguments)
    }

    /// `podman run` with these options, for a container with the sandbox's root file system.
    pub fn run_command(&self, options: &[&str], name: &str, process: &[&str]) -> Command {
        let rootfs = self.sandbox.root().join("rootfs");
        let cgroup = format!("--cgroup-parent={}", self.cgroup.path());
        let mut command = self.command(&["run", &cgroup, "--name", name]);
        command
            .args(options)
            .arg("--rootfs")
            .arg(rootfs)
            .args(process);
        command
    }

    /// Runs `podman run`.
    pub fn run(&self, options: &[&str], name: &str, process: &[&str]) -> Output {
        self.run_command(options, name, process).output().unwrap()
    }

    /// Starts a container on the network, which sleeps; returns its ID.
    #[track_caller]
    pub fn start(&self, name: &str) -> String {
        let options = ["--detach", "--network=testnet"];
        stdout(self.run(&options, name, &["/bin/sleep", "1000"]))
    }

    /// Runs a podman command that must succeed; returns its stdout.
    #[track_caller]
    pub fn must(&self, arguments: &[&str]) -> String {
        stdout(self.command(arguments).output().unwrap())
    }

    /// Ends the containers as a loss of power does: no DEL, and nothing is left in `/run`.
    pub fn lose_power(&self) {
        self.node.sh(
            "set +e; pkill -KILL -x conmon; pkill -KILL -x sleep; sleep 0.5
            umount /run/netns/*; rm -rf /run/netns/* /run/test-storage /run/libpod /run/runc
            ip link del test0; true",
        );
    }

    /// The address of a container, read inside it.
    #[track_caller]
    pub fn address(&self, name: &str) -> String {
        let show = [
            "exec", name, "/bin/ip", "-4", "-o", "addr", "show", "dev", "eth0",
        ];
        address_in(&self.must(&show))
    }
}

/// Writes podman's settings into the sandbox, with its plugins and the network configurations of
/// this folder.
pub fn write_settings(sandbox: &Sandbox, conf_dir: &Path) {
    let settings = format!(
        r#"
[containers]
# Some machines allow no more than this, and no test needs it.
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
cgroups = "no-conmon"
cgroupns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
[network]
network_backend = "cni"
cni_plugin_dirs = [{:?}, "{REFERENCE_PLUGINS}"]
network_config_dir = {conf_dir:?}
"#,
        sandbox.plugins(),
    );
    fs::write(sandbox.root().join("containers.conf"), settings).unwrap();
}

/// A command of podman on a node, with the settings of [`write_settings`].
pub fn podman_command(node: &Node, sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let root = sandbox.root();
    let mut command = node.command("podman");
    command
        .args([
            "--root=/var/lib/test-storage",
            "--runroot=/run/test-storage",
        ])
        .args(["--storage-driver=vfs", "--log-level=error"])
        .args(arguments)
        .env("CONTAINERS_CONF", root.join("containers.conf"))
        .env("HOME", root)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("CNI_ARGS");
    command
}

#[track_caller]
fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
