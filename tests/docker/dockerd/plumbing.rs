//! Networks by CNI plugins whose plugins leave traces on the host, with either version of Docker.

use harness::{Dockerd, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use crate::dockerd::as_own::with_either;
use crate::dockerd::{create_cni, reserved};
use harness::cni_network::{configure_plugins, ipam};

/// The network configuration `web` of the manual's pages: a bridge with `ipMasq` and two families,
/// and published ports.
fn configure(docker: &Dockerd, ranges: &Value) {
    let sandbox = &docker.sandbox;
    let mut ipam = ipam(sandbox, ranges);
    ipam["routes"] = json!([{"dst": "0.0.0.0/0"}]);
    let bridge = json!({"type": "bridge", "bridge": "web0", "isGateway": true, "ipMasq": true,
        "ipam": ipam});
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    configure_plugins(sandbox, "web", &[bridge, portmap]);
}

fn two_families() -> Value {
    json!([[{"subnet": "10.95.0.0/24"}], [{"subnet": "fd00:95::/64"}]])
}

fn create(docker: &Dockerd, name: &str, options: &[&str]) {
    create_cni(docker, name, &[&["--opt=conflist=web"], options].concat());
}

/// The firewall's rules of CNI plugins, the interfaces and the network namespaces of the node.
fn traces(docker: &Dockerd) -> String {
    docker.node.sh(
        "for tables in iptables-save ip6tables-save; do $tables | sed -n '/CNI/s/ \\[.*//p'; done
        ip -o link | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/'
        ls /run/netns 2>/dev/null || true",
    )
}

#[test]
fn rules_interfaces_and_namespaces_are_as_before_after_any_life_of_a_container() {
    needs!(
        KUBERNETES_PROGRAMS,
        "bridge",
        "portmap",
        "/sbin/ip",
        "/usr/sbin/iptables"
    );
    with_either(0, &[], |mut docker| {
        configure(&docker, &two_families());
        create(&docker, "net", &["--ipam-driver=null"]);
        // Bridge and chains of the plugins, which stay.
        docker.run("net", "first", &["-p8080:80"]);
        docker.says("rm --force first");
        let before = traces(&docker);
        docker.run("net", "restarted", &["-p8080:80"]);
        for _ in 0..3 {
            docker.says("restart --time=0 restarted");
        }
        docker.run("net", "connected", &[]);
        docker.says("network disconnect net connected");
        docker.says("network connect net connected");
        docker.run("net", "killed", &[]);
        docker.says("kill killed");
        docker.says("start killed");
        docker.kill_daemon();
        docker.start_daemon();
        docker.says("restart --time=0 killed");
        assert!(traces(&docker).len() > before.len());
        // Docker makes a new namespace in the place of a container's, so its interface is lost.
        docker.kill_dockerd();
        docker.start_dockerd();
        docker.says("rm --force restarted connected killed");
        docker.sweep();
        docker.wait(|docker| docker.sandbox.docker_files("endpoints").is_empty());
        assert_eq!(traces(&docker), before);
        docker.says("network rm net");
        assert_eq!(traces(&docker), before);
        assert!(reserved(&docker).is_empty());
    });
}

#[test]
fn endpoints_by_plugins_are_as_their_users_expect() {
    needs!(KUBERNETES_PROGRAMS, "bridge", "portmap", "/sbin/ip");
    with_either(1, &[], |mut docker| {
        configure(&docker, &two_families());
        for claim in [
            a_healthy_endpoint_is_no_leak_and_is_listed_once,
            a_port_of_the_host_is_published_once,
            docker_ignores_a_fixed_address_where_it_gives_none,
        ] {
            create(&docker, "net", &["--ipam-driver=null"]);
            claim(&docker);
            docker.clear();
        }
    });
}

fn a_healthy_endpoint_is_no_leak_and_is_listed_once(docker: &Dockerd) {
    let ours = [
        "--ipam-driver=ipam-delegated",
        "--ipam-opt=conflist=web",
        "--subnet=10.95.0.0/24",
    ];
    create(docker, "ours", &ours);
    docker.run("net", "c1", &[]);
    docker.run("ours", "c2", &[]);
    let says = |words: &[&str]| {
        let output = docker.ipamctl(words);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(says(&["leaks"]), "No leak is known.\n");
    let rows: Vec<Value> = serde_json::from_str(&says(&["--json", "ls"])).unwrap();
    let mut listed: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["address"].as_str())
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, ["10.95.0.2", "10.95.0.3", "fd00:95::2"], "{rows:?}");
    let said = says(&["release", "10.95.0.2"]);
    assert!(said.contains("docker network disconnect --force"), "{said}");
    assert_eq!(reserved(docker).len(), 3);
}

fn a_port_of_the_host_is_published_once(docker: &Dockerd) {
    docker.run("net", "c1", &["-p8080:80"]);
    let run = |name: &str, port: &str| {
        let line = ["run", "--detach", "--network=net", "--name", name, port];
        docker.docker(&[&line[..], &["test", "/bin/sleep", "1000"]].concat())
    };
    let refused = run("c2", "-p8080:90");
    let said = String::from_utf8_lossy(&refused.stderr);
    let why = "port 8080/tcp of the host is published already, by endpoint";
    assert!(!refused.status.success() && said.contains(why), "{said}");
    docker.says("rm --force c2");
    assert!(run("c3", "-p8080:80/udp").status.success());
    docker.says("restart --time=0 c1");
    docker.says("rm --force c1 c3");
    assert!(run("c4", "-p8080:90").status.success());
}

fn docker_ignores_a_fixed_address_where_it_gives_none(docker: &Dockerd) {
    let run = "run --detach --network=net --name=c1 --ip=10.95.0.77 test /bin/sleep 1000";
    let run = docker.docker(&run.split(' ').collect::<Vec<_>>());
    // One version refuses it; no version passes it on.
    if run.status.success() {
        assert_ne!(docker.address("net", "c1"), "10.95.0.77");
    }
}
