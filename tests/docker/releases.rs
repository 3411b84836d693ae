//! Docker releases an address only once, even if that fails. So the daemon releases it later if a
//! delegate fails or hangs.

use std::fs;
use std::os::unix::net::UnixStream;
use std::thread;

use harness::{DockerDaemon, Node, Sandbox, needs};
use rustix::process::Signal;
use serde_json::json;

use harness::cni_network::{configure_plugins, ipam};
use harness::waiting::{wait_for, wait_until_equal};

/// A delegate after the allocator. It fails or hangs on a command while a file in the sandbox has
/// the command's name.
const LAST: &str = "root=${0%/*}/..\n\
    while [ -e $root/hang-$CNI_COMMAND ]; do sleep 0.05; done\n\
    [ ! -e $root/fail-$CNI_COMMAND ] || { echo '{\"code\":11,\"msg\":\"not now\"}'; exit 1; }\n\
    [ $CNI_COMMAND = ADD ] || exit 0\n\
    sed 's/.*\"prevResult\"://; s/}$//'";

/// A sandbox with the network configuration `web`, whose last delegate is [`LAST`].
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::default().with_script("last", LAST);
    let mut ipam = ipam(&sandbox, &json!([[{"subnet": "10.9.0.0/24"}]]));
    ipam["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local", "last"]);
    configure_plugins(&sandbox, "web", &[json!({"type": "bridge", "ipam": ipam})]);
    sandbox
}

/// Makes the last delegate fail or hang.
fn begin(sandbox: &Sandbox, what: &str) {
    fs::write(sandbox.root().join(what), "").unwrap();
}

fn end(sandbox: &Sandbox, what: &str) {
    fs::remove_file(sandbox.root().join(what)).unwrap();
}

fn web(daemon: &DockerDaemon) -> String {
    daemon.pool("", &json!({"conflist": "web"}))
}

/// Waits until no file of the daemon, no record and no reservation is left.
fn wait_until_empty(sandbox: &Sandbox, network: &str) {
    wait_for(|| sandbox.docker_files("addresses").is_empty());
    assert_eq!(sandbox.reserved(network), [""; 0]);
}

#[test]
fn a_release_that_fails_is_tried_again_though_the_network_is_gone() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = web(&daemon);
    for ip in ["10.9.0.2", "10.9.0.3"] {
        assert_eq!(daemon.address(&pool, ""), ip);
    }
    begin(&sandbox, "fail-DEL");
    let release = json!({"PoolID": pool, "Address": "10.9.0.2"});
    for _ in 0..2 {
        let refused = daemon.err("/IpamDriver.ReleaseAddress", &release);
        assert!(refused.ends_with("last: not now"), "{refused}");
    }
    daemon.release_pool(&pool);
    daemon.release(&pool, "10.9.0.99");
    daemon.kill();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    assert_eq!(sandbox.docker_files("addresses").len(), 2);
    end(&sandbox, "fail-DEL");
    wait_until_equal(|| sandbox.reserved("web"), ["10.9.0.3"]);
    daemon.release(&pool, "10.9.0.3");
    wait_until_empty(&sandbox, "web");
}

#[test]
fn what_a_failed_add_could_not_undo_is_released_later() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = web(&daemon);
    begin(&sandbox, "fail-ADD");
    let request = json!({"PoolID": pool});
    let refused = daemon.err("/IpamDriver.RequestAddress", &request);
    assert_eq!(refused, "pool 10.9.0.0/24: last: not now");
    // It was undone at once.
    wait_until_empty(&sandbox, "web");
    assert_eq!(sandbox.records("docker-web"), [""; 0]);
    begin(&sandbox, "fail-DEL");
    daemon.err("/IpamDriver.RequestAddress", &request);
    assert_eq!(sandbox.docker_files("addresses").len(), 1);
    end(&sandbox, "fail-DEL");
    daemon.release_pool(&pool);
    wait_until_empty(&sandbox, "web");
}

#[test]
fn a_plugin_that_hangs_in_an_endpoints_del_delays_no_release_of_a_pool() {
    needs!("root", "/sbin/ip");
    let sandbox = sandbox();
    configure_plugins(&sandbox, "net", &[json!({"type": "makes"})]);
    let makes = "#!/bin/sh\n[ $CNI_COMMAND = DEL ] && while [ -e ${0%/*}/../hang-net ]; do sleep 0.05; done\n\
        [ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.7.0.2/24\"}]}'\nexit 0";
    sandbox.write_executable("makes", makes);
    let node = Node::new();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    let of_network = json!({"NetworkID": "n1", "Options":
        {"com.docker.network.generic": {"conflist": "net"}}});
    daemon.ok("/NetworkDriver.CreateNetwork", &of_network);
    for id in ["e1", "e2"] {
        let endpoint = json!({"NetworkID": "n1", "EndpointID": id, "Interface": {}});
        daemon.ok("/NetworkDriver.CreateEndpoint", &endpoint);
    }
    let pool = web(&daemon);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    begin(&sandbox, "hang-net");
    begin(&sandbox, "fail-DEL");
    thread::scope(|scope| {
        for id in ["e1", "e2"] {
            let daemon = &daemon;
            scope.spawn(move || {
                let endpoint = json!({"NetworkID": "n1", "EndpointID": id}).to_string();
                let _ = daemon.try_call("/NetworkDriver.DeleteEndpoint", &endpoint);
            });
        }
        let records = || sandbox.docker_contents("endpoints").concat();
        wait_until_equal(|| records().matches("\"deleting\"").count(), 2);
        daemon.signal(Signal::KILL);
    });
    // What hangs is ended with the daemon; the next one repeats it, and hangs again.
    drop(daemon);
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    let release = json!({"PoolID": pool, "Address": "10.9.0.2"});
    daemon.err("/IpamDriver.ReleaseAddress", &release);
    end(&sandbox, "fail-DEL");
    wait_until_empty(&sandbox, "web");
    assert_eq!(sandbox.docker_files("endpoints").len(), 2);
    end(&sandbox, "hang-net");
    wait_for(|| sandbox.docker_files("endpoints").is_empty());
}

#[test]
fn a_delegate_that_hangs_keeps_only_its_own_pool_waiting() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &["--stop-timeout=1"]);
    let pool = web(&daemon);
    begin(&sandbox, "hang-ADD");
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let request = json!({"PoolID": pool}).to_string();
                let _ = daemon.try_call("/IpamDriver.RequestAddress", &request);
            });
        }
        wait_until_equal(|| sandbox.docker_files("addresses").len(), 20);
        daemon.call("/Plugin.Activate", &json!({}));
        let other = daemon.pool("10.10.0.0/24", &json!({}));
        assert_eq!(daemon.address(&other, ""), "10.10.0.1");
        daemon.release(&other, "10.10.0.1");
        daemon.release_pool(&other);
        // The release of the pool and the end of the daemon aren't delayed, either.
        let release = json!({"PoolID": pool});
        daemon.ok("/IpamDriver.ReleasePool", &release);
        daemon.signal(Signal::TERM);
        let socket = sandbox.docker_socket();
        wait_for(|| UnixStream::connect(&socket).is_err());
    });
    assert!(daemon.wait());
    end(&sandbox, "hang-ADD");
    let _daemon = DockerDaemon::start(&sandbox, &[]);
    wait_until_empty(&sandbox, "web");
}
