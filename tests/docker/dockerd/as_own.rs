//! What a user of Docker's own IPAM driver would notice, with Debian's dockerd or Docker 29.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use harness::{Dockerd, KUBERNETES_PROGRAMS, assert_has, is_in_turn, kubernetes_programs, needs};
use serde_json::json;

use crate::dockerd::{create, create_cni, reserved};
use harness::cni_network::{configure_plugins, ipam};

/// Runs a test of this number with one of both versions of Docker, or with both ([`is_in_turn`]).
pub(crate) fn with_either(number: usize, options: &[&str], run: fn(Dockerd)) {
    thread::scope(|scope| {
        let all = [None, kubernetes_programs()].into_iter().enumerate();
        for (_, programs) in all.filter(|(version, _)| is_in_turn(number + version)) {
            scope.spawn(|| {
                if let Some(docker) = Dockerd::start_of(options, programs) {
                    run(docker);
                }
            });
        }
    });
}

/// Claims about one dockerd. What they leave is swept before the last but one.
const CLAIMS: [fn(&mut Dockerd); 7] = [
    a_restarted_container_has_its_address_again_and_is_reached_at_once,
    the_gateway_of_another_network_of_the_subnet_is_given_to_nobody,
    a_container_with_a_fixed_address_starts_though_its_release_was_missed,
    a_range_begins_and_has_its_gateway_where_dockers_own_driver_has_them,
    a_network_that_is_created_or_removed_without_the_daemon_can_be_created_again,
    a_removed_network_leaves_nothing_once_docker_is_asked,
    ports_are_published_by_the_configurations_plugin_or_refused,
];

#[test]
fn a_user_of_dockers_own_driver_notices_nothing() {
    needs!(KUBERNETES_PROGRAMS, "bridge", "portmap", "/sbin/ip");
    with_either(0, &[], |mut docker| {
        for claim in CLAIMS {
            claim(&mut docker);
            docker.clear();
        }
    });
}

fn a_restarted_container_has_its_address_again_and_is_reached_at_once(docker: &mut Dockerd) {
    create(docker, "net", &["--subnet=10.88.0.0/24"]);
    docker.run("net", "client", &[]);
    let version = docker.ok(&["version", "--format", "{{.Server.Version}}"]);
    // Docker 29 gives a new MAC address at each start, and announces it wrongly for addresses
    // of remote IPAM drivers (`NewUnsolARP` takes an IP address of 16 bytes for one of 4).
    let mac = |mac| {
        if version.starts_with("29.") {
            mac
        } else {
            "--hostname=x"
        }
    };
    let fixed = ["--ip=10.88.0.50", mac("--mac-address=02:00:00:00:00:50")];
    docker.run("net", "fixed", &fixed);
    docker.run("net", "any", &[mac("--mac-address=02:00:00:00:00:03")]);
    assert_eq!(docker.address("net", "any"), "10.88.0.3");
    let reach = |ip| docker.ok(&["exec", "client", "/bin/ping", "-A", "-c5", "-W1", ip]);
    for _ in 0..2 {
        for (name, ip) in [("fixed", "10.88.0.50"), ("any", "10.88.0.3")] {
            reach(ip);
            docker.ok(&["restart", "--time=0", name]);
            assert_eq!(docker.address("net", name), ip);
            reach(ip);
        }
    }
}

fn the_gateway_of_another_network_of_the_subnet_is_given_to_nobody(docker: &mut Dockerd) {
    for parent in ["vp0", "vp2"] {
        let peer = format!("{parent}p");
        docker.node.sh(&format!(
            "ip link add {parent} type veth peer name {peer}; ip link set {parent} up"
        ));
    }
    let subnet = "--subnet=10.88.0.0/24";
    let on = |name: &str, parent: &str, options: &[&str]| {
        let driver = ["--driver=macvlan", parent, subnet];
        create(docker, name, &[&driver, options].concat());
    };
    on("one", "-oparent=vp0", &["--gateway=10.88.0.129"]);
    let range = "--ip-range=10.88.0.128/29";
    on("other", "-oparent=vp2", &[range, "--gateway=10.88.0.1"]);
    let given = ["c-a", "c-b"].map(|name| {
        docker.run("other", name, &[]);
        docker.address("other", name)
    });
    assert_eq!(given, ["10.88.0.128", "10.88.0.130"]);
    docker.says("rm --force c-a c-b");
    // Both on one wire have one router.
    docker.says("network rm other");
    on("other", "-oparent=vp2", &[range, "--gateway=10.88.0.129"]);
    docker.says("network rm one");
    docker.sweep();
    docker.wait(|docker| reserved(docker) == ["10.88.0.129".to_owned()].into());
    docker.says("network rm other");
    docker.sweep();
    docker.wait(|docker| reserved(docker).is_empty());
}

fn a_container_with_a_fixed_address_starts_though_its_release_was_missed(docker: &mut Dockerd) {
    create(docker, "net", &["--subnet=10.88.0.0/24"]);
    docker.run("net", "fixed", &["--ip=10.88.0.50"]);
    docker.run("net", "other", &["--ip=10.88.0.51"]);
    docker.kill_daemon();
    docker.says("stop fixed");
    docker.start_daemon();
    docker.says("start fixed");
    assert_eq!(docker.address("net", "fixed"), "10.88.0.50");
    // A container that runs keeps its address.
    docker.kill_daemon();
    docker.start_daemon();
    let said = docker.refuses("run --rm --network=net --ip=10.88.0.51 test /bin/true");
    assert_has(&said, ["Address already in use: 10.88.0.51"]);
}

#[test]
fn a_running_container_keeps_its_address_though_docker_has_lost_its_endpoint() {
    needs!(KUBERNETES_PROGRAMS);
    with_either(1, &["--live-restore"], |mut docker| {
        create(&docker, "net", &["--subnet=10.88.0.0/24"]);
        let files = "/var/lib/docker/network/files";
        docker.node.sh(&format!("cp -a {files} /run/older"));
        docker.run("net", "c-a", &[]);
        docker.run("net", "c-b", &[]);
        let held = reserved(&docker);
        docker.kill_dockerd();
        docker
            .node
            .sh(&format!("rm -r {files}; cp -a /run/older {files}"));
        docker.start_dockerd();
        docker.sweep();
        assert_eq!(reserved(&docker), held);
    });
}

fn ports_are_published_by_the_configurations_plugin_or_refused(docker: &mut Dockerd) {
    let sandbox = &docker.sandbox;
    let mut ipam = ipam(sandbox, &json!([[{"subnet": "10.95.0.0/24"}]]));
    ipam["routes"] = json!([{"dst": "0.0.0.0/0"}]);
    let bridge = |name| json!({"type": "bridge", "bridge": name, "isGateway": true, "ipam": ipam});
    let capabilities = json!({"portMappings": true});
    let portmap = json!({"type": "portmap", "capabilities": capabilities, "snat": true});
    configure_plugins(sandbox, "with", &[bridge("with0"), portmap]);
    configure_plugins(sandbox, "without", &[bridge("without0")]);
    for name in ["with", "without"] {
        let conflist = format!("--opt=conflist={name}");
        create_cni(docker, name, &["--ipam-driver=null", &conflist]);
    }
    let run = |network: &str, port: &str| {
        let run = format!("run --detach --stop-timeout=0 --name=web --network {network} {port}");
        let words = format!("{run} test /bin/busybox httpd -f -p 80 -h /bin");
        docker.docker(&words.split(' ').collect::<Vec<_>>())
    };
    let started = run("with", "-p8080:80");
    assert!(started.status.success(), "{started:?}");
    let ask = "busybox wget -q -O /dev/null http://127.0.0.1:8080/busybox";
    docker.wait(|docker| docker.node.succeeds(ask));
    docker.says("rm --force web");
    assert!(!docker.node.succeeds(ask));
    for (network, port, why) in [
        (
            "with",
            "-p80",
            "port 80/tcp is published without a port of the host",
        ),
        (
            "without",
            "-p8080:80",
            "no plugin with the capability portMappings",
        ),
    ] {
        let refused = run(network, port);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(why), "{said}");
        docker.says("rm --force web");
    }
    assert_eq!(reserved(docker), BTreeSet::new());
}

fn a_removed_network_leaves_nothing_once_docker_is_asked(docker: &mut Dockerd) {
    let format = "{{(index .IPAM.Config 0).Subnet}}";
    let subnets = ["one", "other"].map(|name| {
        create(docker, name, &[]);
        create(docker, "six", &["--ipv6", "--subnet=fd00:88::/64"]);
        docker.run(name, "c1", &[]);
        docker.says("rm --force c1");
        let subnet = docker.ok(&["network", "inspect", "--format", format, name]);
        docker.ok(&["network", "rm", name, "six"]);
        subnet
    });
    assert_ne!(subnets[0], subnets[1]);
    docker.sweep();
    docker.wait(|docker| {
        let left = fs::read_dir(docker.sandbox.data_dir());
        left.into_iter().flatten().count() == 0
    });
    assert!(docker.sandbox.docker_files("addresses").is_empty());
}

fn a_range_begins_and_has_its_gateway_where_dockers_own_driver_has_them(docker: &mut Dockerd) {
    let all = [
        &["--ip-range=10.NET.128/25"][..],
        &["--ip-range=10.NET.128/25", "--gateway=10.NET.1"],
        &["--ip-range=10.NET.0/25"],
        &[],
    ];
    for (at, options) in all.into_iter().enumerate() {
        let given = [("default", 62), ("ipam-delegated", 63)].map(|(driver, net)| {
            let name = format!("{driver}-{at}");
            let net = format!("{net}.{at}");
            let driver = format!("--ipam-driver={driver}");
            let subnet = format!("--subnet=10.{net}.0/24");
            let options: Vec<String> = options
                .iter()
                .map(|option| option.replace("NET", &net))
                .collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let line = ["network", "create", &driver, &subnet];
            docker.ok(&[&line[..], &options, &[&name]].concat());
            docker.run(&name, &format!("c-{name}"), &[]);
            let format = "{{range .NetworkSettings.Networks}}{{.Gateway}} {{.IPAddress}}{{end}}";
            let shown = docker.ok(&["inspect", "--format", format, &format!("c-{name}")]);
            shown.replace(&format!("10.{net}."), "")
        });
        assert_eq!(given[0], given[1], "{at}");
    }
}

fn a_network_that_is_created_or_removed_without_the_daemon_can_be_created_again(
    docker: &mut Dockerd,
) {
    let options = ["--subnet=10.88.0.0/24", "--aux-address=router=10.88.0.9"];
    create(docker, "net", &options);
    configure_plugins(&docker.sandbox, "web", &[json!({"type": "bridge"})]);
    create_cni(docker, "cni", &["--ipam-driver=null", "--opt=conflist=web"]);
    docker.kill_daemon();
    // Docker retries for half a minute, and then removes the network anyway.
    let remove = |name| docker.command(&["network", "rm", name]).spawn().unwrap();
    let removing = ["net", "cni"].map(remove);
    let said = docker.refuses("network create --ipam-driver=ipam-delegated new");
    assert!(said.contains("ipam-delegated.sock: connect"), "{said}");
    for mut removing in removing {
        removing.wait().unwrap();
    }
    assert!(!docker.says("network ls").contains("ipam-delegated"));
    docker.start_daemon();
    // Docker is asked about the gateway, and has no such network.
    create(docker, "net", &options);
    docker.says("network rm net");
    docker.sweep();
    docker.wait(|docker| reserved(docker).is_empty());
    assert!(docker.sandbox.docker_files("networks").is_empty());
}
