//! Docker and podman busy on one pool at the same time, with the garbage collection of a runtime that
//! lists only podman's containers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{ALL_POINTS, Dockerd, needs, podman_command, write_settings};
use serde_json::json;

use crate::dockerd::as_own::with_either;
use crate::dockerd::{create_cni, reserved};
use harness::cni_network::{configure_plugins, ipam};

/// How many containers each of both starts: with [`ALL_POINTS`], or without.
const EACH: [usize; 2] = [50, 15];
const THREADS: usize = 3;

/// podman on the node of a dockerd.
struct Podman<'a>(&'a Dockerd);

impl Podman<'_> {
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let docker = self.0;
        let mut command = podman_command(&docker.node, &docker.sandbox, arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn run(&self, name: &str) {
        let rootfs = self.0.sandbox.root().join("rootfs");
        let cgroup = format!("--cgroup-parent={}", self.0.cgroup_path());
        let line = ["run", "--detach", "--network=web", &cgroup, "--name", name];
        let container = ["--rootfs", rootfs.to_str().unwrap(), "/bin/sleep", "1000"];
        self.ok(&[&line[..], &container].concat());
    }
}

/// Starts containers in threads, and removes two of three at once. Returns the others.
fn busy(
    each: usize,
    run: &(dyn Fn(&str) + Sync),
    remove: &(dyn Fn(&str) + Sync),
    who: &str,
) -> Vec<String> {
    let of_thread = |thread: usize| {
        let mut kept = Vec::new();
        for i in (thread..each).step_by(THREADS) {
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
fn containers_of_docker_and_of_podman_at_once_have_an_address_each() {
    needs!("bridge", "/usr/bin/podman", "/usr/sbin/runc", "/sbin/ip");
    with_either(1, &[], |docker| are_busy_at_once(&docker));
}

fn are_busy_at_once(docker: &Dockerd) {
    let sandbox = &docker.sandbox;
    let ipam = ipam(sandbox, &json!([[{"subnet": "10.95.0.0/16"}]]));
    let bridge = json!({"type": "bridge", "bridge": "web0", "isGateway": true, "ipam": ipam});
    configure_plugins(sandbox, "web", &[bridge]);
    let gc = json!({"cniVersion": "1.1.0", "name": "web", "type": "bridge", "ipam": ipam});
    let options = ["--ipam-driver=null", "--opt=conflist=web"];
    create_cni(docker, "net", &options);
    write_settings(sandbox, &sandbox.conf_dir());
    docker.node.sh("mount -t tmpfs none /dev/shm");
    let podman = Podman(docker);
    let is_over = AtomicBool::new(false);
    let each = EACH[usize::from(std::env::var_os(ALL_POINTS).is_none())];
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
        let of_docker = scope.spawn(|| busy(each, &docker_run, &docker_remove, "d"));
        let of_podman = scope.spawn(|| busy(each, &podman_run, &podman_remove, "p"));
        let both = (of_docker.join(), of_podman.join());
        is_over.store(true, Ordering::Relaxed);
        (both.0.unwrap(), both.1.unwrap())
    });
    let show = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let inspect = |names: &[String], ok: &dyn Fn(&[&str]) -> String| -> Vec<String> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = ok(&[&["inspect", "--format", show], &names[..]].concat());
        shown.lines().map(str::to_owned).collect()
    };
    let mut given = inspect(&of_docker, &|line| docker.ok(line));
    given.extend(inspect(&of_podman, &|line| podman.ok(line)));
    let different: BTreeSet<String> = given.iter().cloned().collect();
    assert_eq!(
        [given.len(), different.len()],
        [2 * each.div_ceil(3); 2],
        "{given:?}"
    );
    assert_eq!(reserved(docker), different);
    of_docker.iter().for_each(|name| docker_remove(name));
    of_podman.iter().for_each(|name| podman_remove(name));
    assert_eq!(reserved(docker), BTreeSet::new());
}
