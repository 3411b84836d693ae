//! Docker and podman busy on one pool at the same time, with the garbage collection of a runtime that
//! lists only podman's containers.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Dockerd, REFERENCE_PLUGINS, needs};
use serde_json::{Value, json};

use crate::with_docker::reserved;
use harness::cni_network::configure_plugins;

/// How many containers each of both starts, in this number of threads.
const EACH: usize = 50;
const THREADS: usize = 3;

/// podman on the node of a dockerd.
struct Podman<'a> {
    docker: &'a Dockerd,
}

impl<'a> Podman<'a> {
    fn beside(docker: &'a Dockerd) -> Self {
        let (plugins, conf_dir) = (docker.sandbox.plugins(), docker.sandbox.conf_dir());
        let settings = format!(
            "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
             cgroups = \"no-conmon\"\ncgroupns = \"host\"\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n\
             [network]\nnetwork_backend = \"cni\"\n\
             cni_plugin_dirs = [{plugins:?}, \"{REFERENCE_PLUGINS}\"]\nnetwork_config_dir = {conf_dir:?}\n",
        );
        fs::write(docker.sandbox.root().join("containers.conf"), settings).unwrap();
        docker.node.sh("mount -t tmpfs none /dev/shm");
        Self { docker }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let root = self.docker.sandbox.root();
        let mut command = self.docker.node.command("podman");
        command
            .args([
                "--root=/var/lib/test-storage",
                "--runroot=/run/test-storage",
            ])
            .args(["--storage-driver=vfs", "--log-level=error"])
            .args(arguments)
            .env("CONTAINERS_CONF", root.join("containers.conf"))
            .env("HOME", root)
            .env_remove("XDG_RUNTIME_DIR");
        command
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        stdout(&self.command(arguments).output().unwrap())
    }

    fn run(&self, name: &str) {
        let rootfs = self.docker.sandbox.root().join("rootfs");
        let cgroup = format!("--cgroup-parent={}", self.docker.cgroup_path());
        let line = ["run", "--detach", "--network=web", &cgroup, "--name", name];
        let container = ["--rootfs", rootfs.to_str().unwrap(), "/bin/sleep", "1000"];
        self.ok(&[&line[..], &container].concat());
    }
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The configuration `web`, and that of its GC.
fn configure(docker: &Dockerd) -> Value {
    let sandbox = &docker.sandbox;
    let ipam = json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
        "ranges": [[{"subnet": "10.95.0.0/16"}]],
        "dataDir": sandbox.data_dir(),
        "stateDir": sandbox.state_dir(),
    });
    let bridge = json!({"type": "bridge", "bridge": "web0", "isGateway": true, "ipam": ipam});
    configure_plugins(sandbox, "web", &[bridge]);
    json!({"cniVersion": "1.1.0", "name": "web", "type": "bridge", "ipam": ipam})
}

/// Starts containers in threads, and removes two of three at once. Returns the others.
fn busy(run: &(dyn Fn(&str) + Sync), remove: &(dyn Fn(&str) + Sync), who: &str) -> Vec<String> {
    let of_thread = |thread: usize| {
        let mut kept = Vec::new();
        for i in (thread..EACH).step_by(THREADS) {
            let name = format!("{who}{i}");
            run(&name);
            if i % 3 == 0 {
                kept.push(name);
            } else {
                remove(&name);
            }
        }
        kept
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS)
            .map(|i| scope.spawn(move || of_thread(i)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn fifty_containers_of_docker_and_of_podman_at_once_have_an_address_each() {
    needs!("bridge", "/usr/bin/podman", "/usr/sbin/runc", "/sbin/ip");
    let Some(docker) = Dockerd::start(&[]) else {
        return;
    };
    let gc = configure(&docker);
    let line = [
        "network",
        "create",
        "--driver=ipam-delegated",
        "--ipam-driver=null",
    ];
    docker.ok(&[&line[..], &["--opt=conflist=web", "net"]].concat());
    let podman = Podman::beside(&docker);
    let is_over = AtomicBool::new(false);
    let collect = || {
        while !is_over.load(Ordering::Relaxed) {
            let ids = podman.ok(&["ps", "--quiet", "--no-trunc"]);
            let valid = ids
                .lines()
                .map(|id| json!({"containerID": id, "ifname": "eth0"}));
            let mut config = gc.clone();
            config["cni.dev/valid-attachments"] = valid.collect();
            let call = docker.sandbox.call("ipam-delegated", "GC", &config);
            call.run_on(&docker.node);
        }
    };
    let docker_run = |name: &str| docker.run("net", name, &[]);
    let docker_remove = |name: &str| drop(docker.ok(&["rm", "--force", name]));
    let podman_run = |name: &str| podman.run(name);
    let podman_remove = |name: &str| drop(podman.ok(&["rm", "--force", "--time=0", name]));
    let (of_docker, of_podman) = thread::scope(|scope| {
        scope.spawn(collect);
        let of_docker = scope.spawn(|| busy(&docker_run, &docker_remove, "d"));
        let of_podman = scope.spawn(|| busy(&podman_run, &podman_remove, "p"));
        let both = (of_docker.join(), of_podman.join());
        is_over.store(true, Ordering::Relaxed);
        (both.0.unwrap(), both.1.unwrap())
    });
    let show = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let inspect = |names: &[String]| {
        let names = names.iter().map(String::as_str);
        ["inspect", "--format", show]
            .into_iter()
            .chain(names)
            .map(str::to_owned)
            .collect()
    };
    let words = |line: &Vec<String>| -> Vec<String> {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        docker.ok(&line).lines().map(str::to_owned).collect()
    };
    let mut given = words(&inspect(&of_docker));
    let line: Vec<String> = inspect(&of_podman);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    given.extend(podman.ok(&line).lines().map(str::to_owned));
    let different: BTreeSet<String> = given.iter().cloned().collect();
    assert_eq!((given.len(), different.len()), (34, 34), "{given:?}");
    assert_eq!(reserved(&docker), different);
    for name in &of_docker {
        docker_remove(name);
    }
    for name in &of_podman {
        podman_remove(name);
    }
    assert_eq!(reserved(&docker), BTreeSet::new());
}
