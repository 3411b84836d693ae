//! Each call of Docker's network protocol, as a real dockerd makes them, and SIGKILL at
//! every point of the making of an endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use harness::{DockerDaemon, Node, Sandbox, needs, repository};
use serde_json::{Value, json};

use crate::waiting::wait_for;

const STRACE: &str = "/usr/bin/strace";

/// A node, a sandbox with the network configuration `web`, and nothing that runs.
fn node() -> Option<(Node, Sandbox)> {
    let node = Node::try_new()
        .inspect_err(|reason| harness::skip("docker_endpoints", reason))
        .ok()?;
    let sandbox = Sandbox::default();
    let ipam = json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
        "ranges": [[{"subnet": "10.95.0.0/24"}], [{"subnet": "fd00:95::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": sandbox.data_dir(),
        "stateDir": sandbox.state_dir(),
        "cacheDir": sandbox.cache_dir(),
    });
    let bridge = json!({"type": "bridge", "bridge": "web0", "isGateway": true, "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "web", "plugins": [bridge]});
    fs::create_dir(sandbox.conf_dir()).unwrap();
    fs::write(sandbox.conf_dir().join("web.conflist"), list.to_string()).unwrap();
    Some((node, sandbox))
}

/// The calls of a real dockerd, in order.
fn recorded() -> Vec<(String, String)> {
    let file = repository().join("testdata/docker/network-driver-20.10.24.jsonl");
    let text = fs::read_to_string(file).unwrap();
    let call = |line: &str| {
        let call: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| call[key].as_str().unwrap().to_owned();
        (text("path"), text("body"))
    };
    text.lines().map(call).collect()
}

/// The first recorded call of this path.
fn call_of(path: &str) -> (String, String) {
    recorded().into_iter().find(|it| it.0 == path).unwrap()
}

/// Names of the interfaces of endpoints on the node, and of their namespaces.
fn left(node: &Node) -> Vec<String> {
    let interfaces = node.sh("ip -o link | grep -oE ' (cni|veth)[0-9a-f]*' || true");
    let namespaces = node.sh("ls /run/netns | grep docker- || true");
    let all = format!("{interfaces}{namespaces}");
    all.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn assert_nothing_left(node: &Node, sandbox: &Sandbox, what: &str) {
    assert_eq!(sandbox.reserved("web"), [""; 0], "{what}");
    assert_eq!(sandbox.records("web"), [""; 0], "{what}");
    assert_eq!(left(node), [""; 0], "{what}");
    wait_for(|| sandbox.docker_memory("endpoints").is_empty());
}

#[test]
fn the_calls_of_a_real_dockerd_are_answered_as_their_descriptions_say() {
    needs!("root", "bridge", "/sbin/ip");
    let Some((node, sandbox)) = node() else {
        return;
    };
    let daemon = DockerDaemon::start_on(&node, &sandbox);
    let mut paths = BTreeSet::new();
    for (path, body) in recorded() {
        let answer = daemon.try_call(&path, &body).unwrap();
        assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
        let answer = answer.body;
        let endpoint = "cb53961db9058382b1af02b14e500e618f185984684c0e22b2d06384b21dbb7f";
        match path.strip_prefix("/NetworkDriver.").unwrap() {
            "GetCapabilities" => {
                assert_eq!(
                    answer,
                    json!({"Scope": "local", "ConnectivityScope": "local"})
                );
            }
            "CreateEndpoint" => {
                let mac = answer["Interface"]["MacAddress"].clone();
                assert_eq!(
                    answer,
                    json!({"Interface": {"Address": "10.95.0.2/24", "AddressIPv6": "fd00:95::2/64", "MacAddress": mac}})
                );
                assert_eq!(sandbox.reserved("web").len(), 2);
                let inside = node.sh(&format!("ip -netns docker-{endpoint} addr show dev eth0"));
                assert!(inside.contains(mac.as_str().unwrap()) && inside.contains("10.95.0.2/24"));
            }
            "Join" => {
                assert_eq!(
                    answer,
                    json!({"InterfaceName": {"SrcName": "cnicb53961db905", "DstPrefix": "eth"},
                           "Gateway": "10.95.0.1", "StaticRoutes": [], "DisableGatewayService": true})
                );
                node.sh("ip link show dev cnicb53961db905");
                // Once more, as after a restart of the daemon.
                assert_eq!(daemon.try_call(&path, &body).unwrap().body, answer);
            }
            "EndpointOperInfo" => {
                assert_eq!(
                    answer["Value"]["result"]["ips"][0]["address"],
                    "10.95.0.2/24"
                );
            }
            "Leave" => {
                assert_eq!(answer, json!({}));
                // What Docker does behind it: the interface is given back.
                node.sh(&format!("ip -netns docker-{endpoint} link set eth0 name back; ip -netns docker-{endpoint} link set back name cnicb53961db905"));
                node.sh(&format!(
                    "ip -netns docker-{endpoint} link set cnicb53961db905 netns $$"
                ));
            }
            _ => assert_eq!(answer, json!({}), "{path}"),
        }
        paths.insert(path);
    }
    let all = [
        "CreateEndpoint",
        "CreateNetwork",
        "DeleteEndpoint",
        "DeleteNetwork",
        "EndpointOperInfo",
        "GetCapabilities",
        "Join",
        "Leave",
    ];
    assert_eq!(paths, all.map(|it| format!("/NetworkDriver.{it}")).into());
    for path in [
        "/NetworkDriver.DiscoverNew",
        "/NetworkDriver.DiscoverDelete",
    ] {
        let body =
            json!({"DiscoveryType": 1, "DiscoveryData": {"Address": "192.168.0.7", "self": true}});
        assert_eq!(daemon.ok(path, &body), json!({}));
        assert_eq!(daemon.try_call(path, "x").unwrap().status, 400);
    }
    assert_nothing_left(&node, &sandbox, "");
    // What is deleted is deleted.
    for path in ["DeleteEndpoint", "Leave", "DeleteNetwork"] {
        let (path, body) = call_of(&format!("/NetworkDriver.{path}"));
        assert_eq!(daemon.try_call(&path, &body).unwrap().body, json!({}));
    }
    for path in ["CreateEndpoint", "Join", "EndpointOperInfo"] {
        let (path, body) = call_of(&format!("/NetworkDriver.{path}"));
        let answer = daemon.try_call(&path, &body).unwrap().body;
        assert!(
            answer["Err"].as_str().unwrap().starts_with("NetworkID: "),
            "{answer}"
        );
    }
}

#[test]
fn a_network_that_is_deleted_takes_its_endpoints_with_it() {
    needs!("root", "bridge", "/sbin/ip");
    let Some((node, sandbox)) = node() else {
        return;
    };
    let daemon = DockerDaemon::start_on(&node, &sandbox);
    for path in ["CreateNetwork", "CreateEndpoint", "Join"] {
        let (path, body) = call_of(&format!("/NetworkDriver.{path}"));
        daemon.try_call(&path, &body).unwrap();
    }
    daemon.kill();
    let daemon = DockerDaemon::start_on(&node, &sandbox);
    assert_eq!(left(&node).len(), 3);
    let (path, body) = call_of("/NetworkDriver.DeleteNetwork");
    assert_eq!(daemon.try_call(&path, &body).unwrap().body, json!({}));
    assert_nothing_left(&node, &sandbox, "");
}

/// A system call of the daemon's own threads, and for which time one makes it.
type Point = (String, usize);

/// Waits until strace has the daemon, or has killed it.
fn attach(daemon: &DockerDaemon, trace: &Path, expression: &str) -> Child {
    let strace = Command::new(STRACE)
        .args(["-f", "-qq", "-e", expression, "-o"])
        .arg(trace)
        .args(["-p", &daemon.id().to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", daemon.id())) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n") || status.contains("State:\tZ")
        })
    });
    strace
}

/// The points of `CreateEndpoint` in the daemon's own threads.
fn points(node: &Node, sandbox: &Sandbox) -> BTreeSet<Point> {
    let daemon = DockerDaemon::start_on(node, sandbox);
    let (path, body) = call_of("/NetworkDriver.CreateNetwork");
    daemon.try_call(&path, &body).unwrap();
    let trace = sandbox.root().join("trace");
    let mut strace = attach(&daemon, &trace, "trace=all");
    let (path, body) = call_of("/NetworkDriver.CreateEndpoint");
    daemon.try_call(&path, &body).unwrap();
    wait_for(|| fs::read_to_string(&trace).unwrap().contains("answered"));
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
    let threads: BTreeSet<String> = threads
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    let (path, body) = call_of("/NetworkDriver.DeleteNetwork");
    daemon.try_call(&path, &body).unwrap();
    daemon.kill();
    strace.wait().unwrap();
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let name = call.trim_start().split('(').next().unwrap_or_default();
        let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !threads.contains(thread)
            || name.is_empty()
            || !name.bytes().all(is_part)
            || !call.contains('(')
        {
            continue;
        }
        let time = times
            .entry((thread.to_owned(), name.to_owned()))
            .or_default();
        *time += 1;
        points.insert((name.to_owned(), *time));
    }
    points
}

#[test]
fn no_interface_namespace_or_address_is_left_wherever_the_daemon_is_killed() {
    needs!("root", "bridge", "/sbin/ip", STRACE);
    let Some((node, sandbox)) = node() else {
        return;
    };
    let points = points(&node, &sandbox);
    assert_nothing_left(&node, &sandbox, "before");
    let create = call_of("/NetworkDriver.CreateEndpoint");
    let mut killed = 0;
    for (i, (name, time)) in points.iter().enumerate() {
        let what = format!("{name} for the {time}. time");
        let _ = fs::remove_dir_all(sandbox.docker_state());
        let daemon = DockerDaemon::start_on(&node, &sandbox);
        let (path, body) = call_of("/NetworkDriver.CreateNetwork");
        daemon.try_call(&path, &body).unwrap();
        wait_for(|| {
            let folder = sandbox.docker_state().join("memory/v1/networks");
            let mut files = fs::read_dir(folder).unwrap().flatten();
            files.all(|it| fs::read_to_string(it.path()).unwrap().contains("answered"))
        });
        let expression = format!("inject={name}:signal=SIGKILL:when={time}");
        let mut strace = attach(&daemon, Path::new("/dev/null"), &expression);
        let answer = daemon.try_call(&create.0, &create.1).ok();
        killed += usize::from(answer.is_none());
        daemon.kill();
        strace.wait().unwrap();
        let daemon = DockerDaemon::start_on(&node, &sandbox);
        // Docker repeats the call, or has gone and does nothing.
        let repeats = i % 2 == 0;
        if repeats && answer.is_none() {
            let again = daemon.try_call(&create.0, &create.1).unwrap().body;
            assert!(again["Interface"]["Address"].is_string(), "{what}: {again}");
            assert_eq!(sandbox.reserved("web").len(), 2, "{what}");
            // The end of the pair, and the namespace.
            assert_eq!(left(&node).len(), 2, "{what}: {:?}", left(&node));
            for path in ["Join", "Leave", "DeleteEndpoint"] {
                let (path, body) = call_of(&format!("/NetworkDriver.{path}"));
                let answer = daemon.try_call(&path, &body).unwrap().body;
                assert!(answer.get("Err").is_none(), "{what}: {answer}");
            }
            assert_nothing_left(&node, &sandbox, &what);
        }
        let (path, body) = call_of("/NetworkDriver.DeleteNetwork");
        daemon.try_call(&path, &body).unwrap();
        assert_nothing_left(&node, &sandbox, &what);
    }
    println!(
        "of {} points, {killed} before Docker had the answer",
        points.len()
    );
    assert!(
        points.len() > 50 && killed * 2 > points.len(),
        "{killed} of {}",
        points.len()
    );
}
