//! Docker releases an address only once, even if that fails. So the daemon releases it later if a
//! delegate fails or hangs, or if one of its files is lost.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use harness::{DockerDaemon, FakeDocker, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::waiting::{held_lock, wait_for, wait_until_equal};

const SPACE: &str = "ipam-delegated-local";
const PLAIN: &str = "docker-10.9.0.0-24";
const ASKS_AT_ONCE: [&str; 1] = ["--unanswered-after=0s"];

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
    fs::create_dir(sandbox.conf_dir()).unwrap();
    let ipam = json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-ranges", "ipam-da-host-local", "last"],
        "ranges": [[{"subnet": "10.9.0.0/24"}]],
        "dataDir": sandbox.data_dir(),
        "stateDir": sandbox.state_dir(),
        "cacheDir": sandbox.cache_dir(),
    });
    let plugin = json!({"type": "bridge", "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "web", "plugins": [plugin]});
    fs::write(sandbox.conf_dir().join("10.conflist"), list.to_string()).unwrap();
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
    wait_for(|| {
        let files = ["pools", "addresses"].map(|kind| sandbox.docker_files(kind));
        files.iter().all(Vec::is_empty) && sandbox.records("docker-web").is_empty()
    });
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
    let refused = daemon.err("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    assert!(
        refused.starts_with("released later: 10.9.0.3: "),
        "{refused}"
    );
    assert_eq!(sandbox.records("docker-web").len(), 2);
    // The pool doesn't exist any more: another pool may have its subnet.
    daemon.pool("10.9.0.0/16", &json!({}));
    daemon.ok(
        "/IpamDriver.ReleasePool",
        &json!({"PoolID": format!("{SPACE}//10.9.0.0/16")}),
    );
    daemon.kill();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    assert_eq!(sandbox.records("docker-web").len(), 2);
    end(&sandbox, "fail-DEL");
    daemon.ok("/IpamDriver.ReleaseAddress", &release);
    wait_until_empty(&sandbox, "web");
}

#[test]
fn what_a_failed_add_could_not_undo_is_released_later() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = web(&daemon);
    begin(&sandbox, "fail-ADD");
    begin(&sandbox, "fail-DEL");
    let refused = daemon.err("/IpamDriver.RequestAddress", &json!({"PoolID": pool}));
    assert!(refused.contains("last: not now"), "{refused}");
    assert_eq!(sandbox.records("docker-web").len(), 1);
    assert_eq!(sandbox.docker_files("addresses").len(), 1);
    end(&sandbox, "fail-DEL");
    daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    wait_until_empty(&sandbox, "web");
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
        // The number of chains that run at the same time for one pool.
        wait_until_equal(|| sandbox.docker_files("addresses").len(), 4);
        daemon.call("/Plugin.Activate", &json!({}));
        let other = daemon.pool("10.10.0.0/24", &json!({}));
        assert_eq!(daemon.address(&other, ""), "10.10.0.2");
        daemon.release(&other, "10.10.0.2");
        daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": other}));
        // The release of the pool and the end of the daemon aren't delayed, either.
        let release = json!({"PoolID": pool});
        daemon.ok("/IpamDriver.ReleasePool", &release);
        let id = i32::try_from(daemon.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
        let socket = sandbox.docker_socket();
        wait_for(|| UnixStream::connect(&socket).is_err());
    });
    assert!(daemon.wait());
    end(&sandbox, "hang-ADD");
    let _daemon = DockerDaemon::start(&sandbox, &[]);
    wait_until_empty(&sandbox, "web");
}

/// A fake Docker with the pool, and containers with these addresses.
fn docker(sandbox: &Sandbox, ips: &[&str]) -> FakeDocker {
    let container = |ip: &&str| {
        let of_it = json!({"Name": ip, "EndpointID": ip, "IPv4Address": format!("{ip}/24")});
        ((*ip).to_owned(), of_it)
    };
    let containers: serde_json::Map<_, _> = ips.iter().map(container).collect();
    let ipam = json!({"Config": [{"Subnet": "10.9.0.0/24", "Gateway": "10.9.0.1"}]});
    let network = json!({"Name": "net", "IPAM": ipam, "Containers": containers});
    FakeDocker::start(sandbox, [("a".to_owned(), network)].into())
}

#[test]
fn what_only_a_record_remembers_is_released_by_it_if_docker_does_not_have_it() {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    wait_for(|| is_answered(&sandbox, "pools") && is_answered(&sandbox, "addresses"));
    daemon.kill();
    let asked = docker(&sandbox, &["10.9.0.2"]);
    // The pool's file can't be read.
    let file = sandbox.docker_files("pools").remove(0);
    let content = fs::read(&file).unwrap();
    fs::write(&file, "{}\n").unwrap();
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| is_compared(&sandbox));
    assert_eq!(sandbox.reserved(PLAIN), ["10.9.0.2"]);
    daemon.kill();
    // The pool's file is damaged. First Docker has the network, and then it doesn't.
    fs::write(&file, &content[..5]).unwrap();
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| is_compared(&sandbox));
    assert_eq!(sandbox.reserved(PLAIN), ["10.9.0.2"]);
    daemon.kill();
    drop(asked);
    let _asked = FakeDocker::start(&sandbox, [].into());
    let _daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_until_empty(&sandbox, PLAIN);
}

/// Appends to a record the line of a DEL that has begun.
fn note_deleting(record: &Path) {
    let text = fs::read_to_string(record).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let line = json!({"deleting": first["adding"]["call"]});
    fs::write(record, format!("{text}{line}\n")).unwrap();
}

/// True if the daemon has compared its state with Docker's.
fn is_compared(sandbox: &Sandbox) -> bool {
    let log = fs::read_to_string(sandbox.root().join("docker-log")).unwrap();
    log.contains("compared with Docker")
}

#[test]
fn a_release_that_hangs_keeps_no_other_pool_waiting() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let (slow, plain) = (web(&daemon), daemon.pool("10.10.0.0/24", &json!({})));
    assert_eq!(daemon.address(&slow, ""), "10.9.0.2");
    assert_eq!(daemon.address(&plain, ""), "10.10.0.2");
    wait_for(|| is_answered(&sandbox, "pools") && is_answered(&sandbox, "addresses"));
    daemon.kill();
    // Both were being released, first the one that hangs.
    for file in sandbox.docker_files("addresses") {
        note_deleting(&file);
    }
    begin(&sandbox, "hang-DEL");
    let daemon = DockerDaemon::start(&sandbox, &[]);
    wait_for(|| sandbox.reserved("docker-10.10.0.0-24").is_empty());
    assert_eq!(sandbox.docker_files("addresses").len(), 1);
    end(&sandbox, "hang-DEL");
    for pool in [slow, plain] {
        daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    }
    wait_until_empty(&sandbox, "web");
}

#[test]
fn an_address_that_is_being_requested_is_released_by_no_start_however_long_it_takes() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let (slow, plain) = (web(&daemon), daemon.pool("10.10.0.0/24", &json!({})));
    assert_eq!(daemon.address(&slow, ""), "10.9.0.2");
    wait_for(|| is_answered(&sandbox, "pools") && is_answered(&sandbox, "addresses"));
    daemon.kill();
    note_deleting(&sandbox.docker_files("addresses")[0]);
    // The first releases take longer than the time that calls wait for them.
    begin(&sandbox, "hang-DEL");
    let _docker = FakeDocker::start(&sandbox, [].into());
    let daemon = DockerDaemon::start(&sandbox, &[]);
    // A request has written its record, and waits for the allocator.
    let allocator = held_lock(&sandbox, "docker-10.10.0.0-24");
    let request = json!({"PoolID": plain});
    let requested = thread::scope(|scope| {
        let requested = scope.spawn(|| daemon.ok("/IpamDriver.RequestAddress", &request));
        let records = sandbox.docker_state().join("records/docker-10.10.0.0-24");
        wait_for(|| fs::read_dir(&records).is_ok_and(|entries| entries.count() == 1));
        end(&sandbox, "hang-DEL");
        wait_until_equal(|| sandbox.docker_files("addresses").len(), 1);
        // By now, the work after these releases has begun.
        thread::sleep(Duration::from_millis(500));
        drop(allocator);
        requested.join().unwrap()
    });
    assert_eq!(requested["Address"], "10.10.0.2/24");
    wait_for(|| is_answered(&sandbox, "addresses"));
    // A container has the address, and keeps it.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(sandbox.reserved("docker-10.10.0.0-24"), ["10.10.0.2"]);
}

#[test]
fn a_selector_that_fails_for_a_moment_decides_nothing() {
    let sandbox = sandbox().with_script(
        "ipam-ds-flaky",
        "[ $CNI_COMMAND = ADD ] || exit 0\n\
         [ ! -e ${0%/*}/../fail ] || { echo '{\"code\":11,\"msg\":\"try again\"}'; exit 1; }\n\
         echo '{\"cniVersion\":\"1.0.0\",\"pools\":[{\"subnet\":\"10.9.0.0/24\"}]}'",
    );
    let file = sandbox.conf_dir().join("10.conflist");
    let list = fs::read_to_string(&file).unwrap();
    fs::write(&file, list.replace("ipam-ds-ranges", "ipam-ds-flaky")).unwrap();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    begin(&sandbox, "fail");
    let body =
        json!({"AddressSpace": SPACE, "Pool": "10.9.0.0/24", "Options": {"conflist": "web"}});
    let refused = daemon.err("/IpamDriver.RequestPool", &body);
    assert_eq!(refused, "ipam-ds-flaky: try again");
    end(&sandbox, "fail");
    let pool = daemon.ok("/IpamDriver.RequestPool", &body);
    let pool = pool["PoolID"].as_str().unwrap();
    assert_eq!(daemon.address(pool, ""), "10.9.0.2");
    assert_eq!(sandbox.reserved("web"), ["10.9.0.2"]);
}

#[test]
fn auxiliary_addresses_stay_over_a_boot() {
    let sandbox = sandbox();
    let file = sandbox.conf_dir().join("10.conflist");
    let list = fs::read_to_string(&file).unwrap();
    let list = list.replace("\"dataDir\"", "\"reclaim\": \"boot\", \"dataDir\"");
    fs::write(&file, list).unwrap();
    let proc = sandbox.root().join("proc");
    let random = proc.join("sys/kernel/random");
    fs::create_dir_all(&random).unwrap();
    let boot = |id: &str| {
        fs::write(random.join("boot_id"), id).unwrap();
        DockerDaemon::start_with(&sandbox, &[], &[("IPAM_DELEGATED_PROC", &proc)])
    };
    let daemon = boot("first\n");
    let pool = web(&daemon);
    assert_eq!(daemon.address(&pool, "10.9.0.5"), "10.9.0.5");
    daemon.kill();
    let _ = fs::remove_dir_all(sandbox.cache_dir());
    let daemon = boot("second\n");
    assert_eq!(daemon.address(&pool, ""), "10.9.0.6");
    assert_eq!(sandbox.reserved("web"), ["10.9.0.5", "10.9.0.6"]);
}

#[test]
fn an_address_whose_attachment_still_has_its_record_is_not_given_anew() {
    let sandbox = sandbox();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = web(&daemon);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    // Only the reservation was removed by somebody.
    fs::remove_file(sandbox.data_dir().join("web/10.9.0.2")).unwrap();
    let request = json!({"PoolID": pool, "Address": "10.9.0.2"});
    let refused = daemon.err("/IpamDriver.RequestAddress", &request);
    let reason = format!("pool {pool}: the chain gave 10.9.0.2, which docker-");
    assert!(refused.starts_with(&reason), "{refused}");
    assert_eq!(sandbox.records("docker-web").len(), 1);
    assert_eq!(sandbox.docker_files("addresses").len(), 1);
    daemon.release(&pool, "10.9.0.2");
    assert_eq!(daemon.address(&pool, "10.9.0.2"), "10.9.0.2");
}

#[test]
fn what_cant_be_noted_is_released_nevertheless() {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    let options = json!({"RequestAddressType": "com.docker.network.gateway"});
    let gateway = json!({"PoolID": pool, "Address": "10.9.0.1", "Options": options});
    daemon.ok("/IpamDriver.RequestAddress", &gateway);
    wait_for(|| is_answered(&sandbox, "pools") && is_answered(&sandbox, "addresses"));
    for kind in ["pools", "gateways"] {
        for file in sandbox.docker_files(kind) {
            // The daemon refuses such a file; a full disk can't be written.
            fs::set_permissions(file, Permissions::from_mode(0o666)).unwrap();
        }
    }
    daemon.release(&pool, "10.9.0.1");
    daemon.release(&pool, "10.9.0.2");
    assert_eq!(sandbox.reserved(PLAIN), [""; 0]);
    daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    wait_until_empty(&sandbox, PLAIN);
}

fn is_answered(sandbox: &Sandbox, kind: &str) -> bool {
    let contents = sandbox.docker_contents(kind);
    contents.iter().all(|content| harness::is_answered(content))
}
