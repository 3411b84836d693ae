//! A real dockerd whose networks get their addresses from a chain.

mod and_podman;
mod as_own;
mod killed;
mod killed_in_flight;
mod networks;
mod plumbing;
mod swarm;

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::thread;

use harness::Dockerd;
use serde_json::{Value, json};

const CREATE: [&str; 3] = ["network", "create", "--ipam-driver=ipam-delegated"];

/// Creates a network by CNI plugins, with these options.
#[track_caller]
pub(crate) fn create_cni(docker: &Dockerd, name: &str, options: &[&str]) {
    let line = ["network", "create", "--driver=ipam-delegated"];
    docker.ok(&[&line, options, &[name]].concat());
}

/// Creates a network whose addresses are the daemon's, with these options.
#[track_caller]
pub(crate) fn create(docker: &Dockerd, name: &str, options: &[&str]) {
    docker.ok(&[&CREATE, options, &[name]].concat());
}

/// The subnets and gateways of a network, as Docker shows them.
fn subnets(docker: &Dockerd, network: &str) -> Value {
    let format = "{{json .IPAM.Config}}";
    let json = docker.ok(&["network", "inspect", "--format", format, network]);
    serde_json::from_str(&json).unwrap()
}

/// The addresses of these running containers in the network `net`.
#[track_caller]
pub(crate) fn addresses(docker: &Dockerd, names: &[&str]) -> BTreeSet<String> {
    let given: BTreeSet<String> = names
        .iter()
        .map(|name| docker.address("net", name))
        .collect();
    assert!(
        given.len() == names.len() && !given.contains(""),
        "{given:?}"
    );
    given
}

/// All reserved addresses of all networks and pools, except gateways: the first address of each
/// subnet.
pub(crate) fn reserved(docker: &Dockerd) -> BTreeSet<String> {
    let networks = fs::read_dir(docker.sandbox.data_dir())
        .into_iter()
        .flatten();
    let names = networks.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .flat_map(|name| docker.sandbox.reserved(&name))
        .filter(|ip| !ip.ends_with(".1") && !ip.ends_with("::1"))
        .collect()
}

/// Writes a network configuration: its chain gives addresses of this subnet, and its plugin is a
/// bridge with these keys. Returns the plugin's configuration.
pub(crate) fn conflist(docker: &Dockerd, name: &str, subnet: &str, keys: &Value) -> Value {
    let sandbox = &docker.sandbox;
    let ranges = json!({"ranges": [[{"subnet": subnet}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &ranges);
    config["name"] = json!(name);
    let keys = keys.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(keys);
    sandbox.write_conflist(&format!("{name}.conflist"), &config);
    config
}

#[test]
fn networks_have_what_they_ask_for() {
    let Some(mut docker) = Dockerd::start(&[]) else {
        return;
    };
    create(&docker, "plain", &[]);
    assert_eq!(
        subnets(&docker, "plain"),
        json!([{"Subnet": "10.201.0.0/24", "Gateway": "10.201.0.1"}])
    );
    let options = [
        "--subnet=10.88.0.0/16",
        "--ip-range=10.88.5.0/24",
        "--gateway=10.88.0.254",
        "--aux-address=router=10.88.5.1",
        "--aux-address=printer=10.88.77.7",
    ];
    create(&docker, "full", &options);
    docker.run("full", "c1", &[]);
    docker.run("full", "c2", &["--ip=10.88.200.9"]);
    let first = docker.address("full", "c1");
    assert_eq!(first, "10.88.5.0");
    assert_eq!(docker.address("full", "c2"), "10.88.200.9");
    for taken in ["10.88.5.1", "10.88.77.7", &first, "10.88.0.254"] {
        let run = format!("run --rm --network=full --ip {taken} test /bin/true");
        let said = docker.refuses(&run);
        assert!(said.contains(taken), "{said}");
    }
    docker.ping("c1", "10.88.200.9");
    docker.ping("c1", "10.88.0.254");
    // IPv6 with a subnet, and from the default pools.
    create(&docker, "six", &["--ipv6", "--subnet=fd00:88::/64"]);
    docker.run("six", "c6", &[]);
    let inside = docker.says("exec c6 /bin/ip addr");
    assert!(
        inside.contains("inet 10.201.1.2/24") && inside.contains("inet6 fd00:88::2/64"),
        "{inside}"
    );
    create(&docker, "inner", &["--internal", "--subnet=10.90.0.0/24"]);
    docker.run("inner", "i1", &[]);
    docker.run("inner", "i2", &[]);
    docker.ping("i1", &docker.address("inner", "i2"));
    // As in a network with Docker's own IPAM.
    docker.says("network create --internal --subnet=10.91.0.0/24 dockers");
    docker.run("dockers", "d1", &[]);
    let routes = |name| docker.ok(&["exec", name, "/bin/ip", "route"]);
    let expected = routes("d1").replace("10.91.0.", "10.90.0.");
    assert_eq!(routes("i1"), expected);
    // Docker's bridge driver refuses two networks with one subnet; nothing is left.
    let same = [&CREATE[..], &["--subnet=10.88.0.0/17", "again"]].concat();
    let said = docker.err(&same);
    assert!(said.contains("overlap"), "{said}");
    docker.says("rm --force c1 c2 c6 d1 i1 i2");
    docker.says("network rm plain full six inner dockers");
    docker.sweep();
    docker.wait(|docker| reserved(docker).is_empty());
    docker.wait(|docker| docker.sandbox.docker_files("addresses").is_empty());
    // The misspelt RleaseAddress is only in Docker's documentation.
    let all = [
        "/IpamDriver.GetCapabilities",
        "/IpamDriver.GetDefaultAddressSpaces",
        "/IpamDriver.ReleaseAddress",
        "/IpamDriver.ReleasePool",
        "/IpamDriver.RequestAddress",
        "/IpamDriver.RequestPool",
    ];
    let mut called = docker.called();
    called.retain(|path| path.starts_with("/IpamDriver."));
    assert_eq!(called, all.map(str::to_owned).into());
}

#[test]
fn twenty_containers_at_once_have_an_address_each_and_reach_one_another() {
    let Some(docker) = Dockerd::start(&[]) else {
        return;
    };
    create(&docker, "net", &["--subnet=10.88.0.0/27"]);
    let names: Vec<String> = (0..20).map(|i| format!("c{i}")).collect();
    let run = |name: &String| {
        let run = ["run", "--detach", "--network=net", "--name", name, "test"];
        let mut run = docker.command(&[&run[..], &["/bin/sleep", "1000"]].concat());
        run.stdout(Stdio::null()).spawn().unwrap()
    };
    let running: Vec<_> = names.iter().map(run).collect();
    for mut run in running {
        assert!(run.wait().unwrap().success());
    }
    let given: BTreeSet<String> = names
        .iter()
        .map(|name| docker.address("net", name))
        .collect();
    assert_eq!(given.len(), 20);
    assert_eq!(reserved(&docker), given);
    for other in &given {
        docker.ping("c0", other);
    }
    // After nine more, the network is full, and Docker's message names the pool.
    for i in 20..29 {
        docker.run("net", &format!("c{i}"), &[]);
    }
    let said = docker.refuses("run --rm --network=net test /bin/true");
    assert!(
        said.contains("pool 10.88.0.0/27: no address left: all 30 are reserved"),
        "{said}"
    );
    let freed = docker.address("net", "c7");
    docker.says("rm --force c7");
    docker.run("net", "next", &[]);
    assert_eq!(docker.address("net", "next"), freed);
}

#[test]
fn a_docker_network_and_a_cni_network_share_a_pool() {
    let Some(docker) = Dockerd::start(&[]) else {
        return;
    };
    let config = conflist(&docker, "shared", "10.88.0.0/24", &json!({}));
    create(&docker, "net", &["--ipam-opt", "conflist=shared"]);
    assert_eq!(
        subnets(&docker, "net"),
        json!([{"Subnet": "10.88.0.0/24", "Gateway": "10.88.0.1"}])
    );
    let by_cni = &|i: usize| {
        let call = docker.sandbox.call("ipam-delegated", "ADD", &config);
        call.container(&format!("cni{i}")).run().ips().remove(0)
    };
    let by_docker = &|i: usize| {
        let name = format!("c{i}");
        docker.run("net", &name, &[]);
        docker.address("net", &name)
    };
    // All at the same time.
    let given: BTreeSet<String> = thread::scope(|scope| {
        let both = (0..5).map(|i| {
            [
                scope.spawn(move || by_cni(i)),
                scope.spawn(move || by_docker(i)),
            ]
        });
        let both: Vec<_> = both.flatten().collect();
        both.into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(given.len(), 10);
    assert_eq!(docker.sandbox.reserved("shared").len(), 10);
    // The host now has a route to it. Without the check, Docker would retry endlessly.
    let said = docker.err(&[&CREATE[..], &["--ipam-opt", "conflist=shared", "again"]].concat());
    assert!(
        said.contains("overlaps with the route 10.88.0.0/24 of br-"),
        "{said}"
    );
    let said = docker.err(&[&CREATE[..], &["--ipam-opt", "conflist=nobody", "again"]].concat());
    assert!(said.contains("has the name \"nobody\""), "{said}");
    let all = ["c0", "c1", "c2", "c3", "c4"];
    docker.ok(&[&["rm", "--force"][..], &all].concat());
    docker.says("network rm net");
    let left = docker.sandbox.reservations("shared");
    assert_eq!(left.len(), 5);
    assert!(left.iter().all(|(_, holder)| holder.starts_with("cni")));
}
