//! podman with its backend `cni` and runc: rules select a pool by facts about a container.
//!
//! All of its files are in a sandbox, or in folders that are private to a test node.

use std::fs;
use std::process::{Command, Output};

use harness::{
    BUSYBOX, Cgroup, Node, REFERENCE_PLUGINS, Sandbox, make_rootfs, needs, skip, skip_for,
};
use serde_json::{Value, json};

use crate::runtimes::{address_in, conflist, reservation};

/// podman on a test node. All of its processes end with the node.
pub(crate) struct Podman {
    pub(crate) node: Node,
    pub(crate) cgroup: Cgroup,
    pub(crate) sandbox: Sandbox,
}

impl Podman {
    /// podman with the network `testnet` and these rules. Reports and returns `None` if podman
    /// can't run a container on this machine.
    pub(crate) fn new(rules: &Value) -> Option<Self> {
        let test = "with_podman";
        let node = match Node::with_own_processes() {
            Ok(node) => node,
            Err(reason) => {
                skip(test, &reason);
                return None;
            }
        };
        // podman keeps its containers' locks in /dev/shm.
        node.sh("mount -t tmpfs none /dev/shm");
        let sandbox = Sandbox::default();
        if let Err(reason) = make_rootfs(&sandbox.root().join("rootfs")) {
            skip_for(test, &reason);
            return None;
        }
        let name = sandbox.root().file_name().unwrap().to_str().unwrap();
        let podman = Self {
            node,
            cgroup: Cgroup::named(name),
            sandbox,
        };
        podman.configure(rules);
        let probe = podman.run(&["--rm", "--network=none"], "probe", &["/bin/true"]);
        if !probe.status.success() {
            let said = String::from_utf8_lossy(&probe.stderr);
            skip(
                test,
                &format!("podman can't run a container here: {}", said.trim()),
            );
            return None;
        }
        Some(podman)
    }

    fn configure(&self, rules: &Value) {
        let root = self.sandbox.root();
        fs::create_dir(root.join("net.d")).unwrap();
        let conflist = conflist(&self.sandbox, rules).to_string();
        fs::write(root.join("net.d/testnet.conflist"), conflist).unwrap();
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
network_config_dir = {:?}
"#,
            self.sandbox.plugins(),
            root.join("net.d"),
        );
        fs::write(root.join("containers.conf"), settings).unwrap();
    }

    /// A command of podman.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let root = self.sandbox.root();
        let mut command = self.node.command("podman");
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

    /// `podman run` with these options, for a container with the sandbox's root file system.
    fn run_command(&self, options: &[&str], name: &str, process: &[&str]) -> Command {
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

    fn run(&self, options: &[&str], name: &str, process: &[&str]) -> Output {
        self.run_command(options, name, process).output().unwrap()
    }

    /// Starts a container on the network; returns its ID.
    #[track_caller]
    fn start(&self, name: &str, cni_args: &str) -> String {
        stdout(self.start_command(name, cni_args).output().unwrap())
    }

    fn start_command(&self, name: &str, cni_args: &str) -> Command {
        let options = ["--detach", "--network=testnet"];
        let mut command = self.run_command(&options, name, &["/bin/sleep", "1000"]);
        command.env("CNI_ARGS", cni_args);
        command
    }

    /// Runs a podman command that must succeed; returns its stdout.
    #[track_caller]
    fn must(&self, arguments: &[&str]) -> String {
        stdout(self.command(arguments).output().unwrap())
    }

    /// The address of a container, read inside it.
    #[track_caller]
    fn address(&self, name: &str) -> String {
        let show = [
            "exec", name, "/bin/ip", "-4", "-o", "addr", "show", "dev", "eth0",
        ];
        address_in(&self.must(&show))
    }
}

#[track_caller]
fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Rules by the containers' names, which podman passes as `K8S_POD_NAME`.
fn by_name() -> Value {
    json!([
        {"when": {"K8S_POD_NAME": "db-0"}, "pools": ["db"], "ip": "10.77.2.10"},
        {"when": {"K8S_POD_NAME": "db-*"}, "pools": ["db"]},
        {"when": {"K8S_POD_NAME": "web-*"}, "pools": ["web"]},
    ])
}

#[test]
fn names_lead_to_two_pools_and_to_a_pinned_address() {
    needs!(
        "root",
        "bridge",
        "/usr/bin/podman",
        "/usr/sbin/runc",
        BUSYBOX
    );
    let Some(podman) = Podman::new(&by_name()) else {
        return;
    };
    let web = podman.start("web-1", "");
    // The pinned address is the first of the pool, and is kept free for its container.
    let db = podman.start("db-1", "");
    let pinned = podman.start("db-0", "");
    assert_eq!(podman.address("web-1"), "10.77.1.10/16");
    assert_eq!(podman.address("db-0"), "10.77.2.10/16");
    assert_eq!(podman.address("db-1"), "10.77.2.11/16");
    let sandbox = &podman.sandbox;
    assert_eq!(
        sandbox.reservations("web"),
        [reservation("10.77.1.10", &web)]
    );
    let expected = [
        reservation("10.77.2.10", &pinned),
        reservation("10.77.2.11", &db),
    ];
    assert_eq!(sandbox.reservations("db"), expected);
    assert_eq!(sandbox.records("testnet").len(), 3);

    podman.must(&["restart", "--time=0", "db-0"]);
    assert_eq!(podman.address("db-0"), "10.77.2.10/16");
    assert_eq!(sandbox.reservations("db"), expected);

    podman.must(&["rm", "--force", "--time=0", "web-1", "db-0"]);
    assert!(sandbox.reservations("web").is_empty());
    assert_eq!(sandbox.reservations("db"), [reservation("10.77.2.11", &db)]);
    podman.must(&["rm", "--force", "--time=0", "db-1"]);
    assert!(sandbox.reservations("db").is_empty());
    assert!(sandbox.records("testnet").is_empty());
}

#[test]
fn podmans_own_cni_args_are_facts() {
    needs!(
        "root",
        "bridge",
        "/usr/bin/podman",
        "/usr/sbin/runc",
        BUSYBOX
    );
    let rules = json!([
        {"when": {"K8S_POD_NAMESPACE": "prod"}, "pools": ["db"]},
        {"pools": ["rest"]},
    ]);
    let Some(podman) = Podman::new(&rules) else {
        return;
    };
    podman.start("one", "K8S_POD_NAMESPACE=prod");
    podman.start("two", "");
    assert_eq!(podman.address("one"), "10.77.2.10/16");
    assert_eq!(podman.address("two"), "10.77.3.10/16");
    podman.must(&["rm", "--force", "--time=0", "one", "two"]);
    assert!(podman.sandbox.reservations("db").is_empty());
    assert!(podman.sandbox.reservations("rest").is_empty());
}

#[test]
fn a_second_container_of_a_pinned_address_is_refused() {
    needs!(
        "root",
        "bridge",
        "/usr/bin/podman",
        "/usr/sbin/runc",
        BUSYBOX
    );
    let Some(podman) = Podman::new(&by_name()) else {
        return;
    };
    let first = podman.start("db-0", "");
    // The last value of a key counts.
    let second = podman.start_command("other", "K8S_POD_NAME=db-0").output();
    let second = second.unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(
        said.contains("10.77.2.10") && said.contains(&first),
        "{said}"
    );
    let sandbox = &podman.sandbox;
    assert_eq!(
        sandbox.reservations("db"),
        [reservation("10.77.2.10", &first)]
    );
    podman.must(&["rm", "--force", "--time=0", "db-0", "other"]);
    assert!(sandbox.reservations("db").is_empty());
}

#[test]
fn a_container_without_a_matching_rule_is_refused() {
    needs!(
        "root",
        "bridge",
        "/usr/bin/podman",
        "/usr/sbin/runc",
        BUSYBOX
    );
    let Some(podman) = Podman::new(&by_name()) else {
        return;
    };
    let refused = podman.start_command("cache", "").output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("ipam-ds-rules"), "{said}");
    assert!(podman.sandbox.records("testnet").is_empty());
}
