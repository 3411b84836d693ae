//! SIGKILL at every point of each call that changes something: before each system call that
//! the daemon makes for it. Then the daemon is started again, and Docker is told nothing: it
//! repeats the call, if it has no answer, or it gives up and removes the network.
//!
//! Two containers of another network have addresses of the pool all the while, and keep
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use harness::{DockerDaemon, Sandbox, needs};
use serde_json::{Value, json};

use crate::waiting::wait_for;

const STRACE: &str = "/usr/bin/strace";
const NETWORK: &str = "docker-10.9.0.0-29";

/// What Docker does after the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It repeats the call, if it has no answer, and removes the container later.
    Repeats,
    /// It has given up, or was killed, too. The network is removed some day.
    HasGone,
}

/// A system call: its name, and for which time a thread makes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    name: String,
    time: usize,
}

/// A call that is killed.
#[derive(Clone, Copy, Debug)]
struct Victim {
    path: &'static str,
    body: &'static str,
}

const POOL: &str = "ipam-delegated-local//10.9.0.0/29";

/// The calls, as dockerd makes them.
const REQUEST_ADDRESS: Victim = Victim {
    path: "/IpamDriver.RequestAddress",
    body: r#"{"PoolID":"ipam-delegated-local//10.9.0.0/29","Address":"","Options":{"com.docker.network.endpoint.macaddress":"02:42:0a:09:00:04"}}"#,
};
const OTHERS: [Victim; 5] = [
    Victim {
        path: "/IpamDriver.RequestAddress",
        body: r#"{"PoolID":"ipam-delegated-local//10.9.0.0/29","Address":"10.9.0.1","Options":{"RequestAddressType":"com.docker.network.gateway"}}"#,
    },
    Victim {
        path: "/IpamDriver.RequestPool",
        body: r#"{"AddressSpace":"ipam-delegated-local","Pool":"","SubPool":"","Options":{},"V6":false}"#,
    },
    Victim {
        path: "/IpamDriver.RequestPool",
        body: r#"{"AddressSpace":"ipam-delegated-local","Pool":"10.9.0.0/29","SubPool":"","Options":{},"V6":false}"#,
    },
    Victim {
        path: "/IpamDriver.ReleasePool",
        body: r#"{"PoolID":"ipam-delegated-local//10.9.0.0/29"}"#,
    },
    Victim {
        path: "/IpamDriver.ReleaseAddress",
        body: r#"{"PoolID":"ipam-delegated-local//10.9.0.0/29","Address":"10.9.0.3"}"#,
    },
];

/// A daemon with a pool that two networks have, and two containers' addresses, and strace
/// on it.
struct Traced {
    daemon: DockerDaemon,
    strace: Child,
}

impl Traced {
    fn new(sandbox: &Sandbox, trace: &Path, expression: &str) -> Self {
        for folder in [sandbox.data_dir(), sandbox.docker_state()] {
            let _ = fs::remove_dir_all(folder);
        }
        let daemon = DockerDaemon::start(sandbox, &[]);
        for _ in 0..2 {
            assert_eq!(daemon.pool("10.9.0.0/29", &json!({})), POOL);
        }
        assert_eq!(daemon.address(POOL, ""), "10.9.0.2");
        assert_eq!(daemon.address(POOL, ""), "10.9.0.3");
        wait_for(|| is_settled(sandbox));
        let strace = Command::new(STRACE)
            .args(["-f", "-qq", "-e", expression, "-o"])
            .arg(trace)
            .args(["-p", &daemon.id().to_string()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let it = Self { daemon, strace };
        wait_for(|| it.is_traced() || it.was_killed());
        it
    }

    /// True if strace has every thread.
    fn is_traced(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.daemon.id())).unwrap();
        let is_traced = |thread: fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        };
        threads.flatten().all(is_traced)
    }

    /// True if the daemon was killed before the call: a system call in which it waits for
    /// one is made again when strace comes.
    fn was_killed(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.id()));
        status.unwrap().contains("State:\tZ")
    }

    /// The call, and its answer if there is one.
    fn call(&self, victim: Victim) -> Option<Value> {
        let answer = self.daemon.try_call(victim.path, victim.body);
        answer.ok().map(|it| it.body)
    }

    fn end(mut self) {
        self.daemon.kill();
        self.strace.wait().unwrap();
    }
}

/// The daemon's files of both kinds.
fn memory(sandbox: &Sandbox) -> [Vec<String>; 2] {
    ["pools", "addresses"].map(|kind| {
        let names = sandbox.docker_memory(kind).into_iter();
        let folder = sandbox.docker_state().join("memory/v1").join(kind);
        names
            .filter_map(|name| fs::read_to_string(folder.join(name)).ok())
            .collect()
    })
}

/// True if this file's object is Docker's: it was made, and the answer delivered.
fn is_had(file: &String) -> bool {
    file.ends_with("\"answered\"\n")
}

/// True if the daemon has nothing left to do: Docker has every answer. A reference whose
/// answer was lost may stay, beside that of the repeated call.
fn is_settled(sandbox: &Sandbox) -> bool {
    let [pools, addresses] = memory(sandbox);
    addresses.iter().all(is_had) && !pools.iter().any(|it| it.contains("\"ending\""))
}

/// Number of references to pools, and of addresses, and the reservations.
fn state(sandbox: &Sandbox) -> State {
    let [pools, addresses] = memory(sandbox);
    let references = pools.iter().filter(|it| is_had(it)).count();
    (references, addresses.len(), sandbox.reserved(NETWORK))
}

type State = (usize, usize, Vec<String>);

/// The points of the call: for each system call, as many as any thread makes. Also the
/// state that it leaves.
fn points(sandbox: &Sandbox, victim: Victim) -> (BTreeSet<Point>, State) {
    let trace = sandbox.root().join("trace");
    let traced = Traced::new(sandbox, &trace, "trace=all");
    assert!(traced.call(victim).is_some());
    wait_for(|| is_settled(sandbox) && memory(sandbox).iter().flatten().all(is_had));
    let state = state(sandbox);
    traced.end();
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let name = call.trim_start().split('(').next().unwrap_or_default();
        let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || !name.bytes().all(is_part) || !call.contains('(') {
            continue;
        }
        let key = (thread.to_owned(), name.to_owned());
        let time = times.entry(key).or_default();
        *time += 1;
        points.insert(Point {
            name: name.to_owned(),
            time: *time,
        });
    }
    (points, state)
}

/// Kills the daemon there. Returns the answer that Docker has, and whether the daemon was
/// killed in the call: threads wait for one another differently each time.
fn kill_at(sandbox: &Sandbox, point: &Point, victim: Victim) -> (Option<Value>, bool) {
    let expression = format!("inject={}:signal=SIGKILL:when={}", point.name, point.time);
    let traced = Traced::new(sandbox, Path::new("/dev/null"), &expression);
    let was_killed_early = traced.was_killed();
    let answer = traced.call(victim);
    traced.end();
    let was_killed = answer.is_none() && !was_killed_early;
    (answer, was_killed)
}

/// Docker removes both networks: nothing is left of them.
fn assert_removed(sandbox: &Sandbox, daemon: &DockerDaemon, releases: bool, what: &str) {
    if releases {
        // As Docker does first.
        for ip in ["10.9.0.1", "10.9.0.2", "10.9.0.3"] {
            daemon.release(POOL, ip);
        }
    }
    // Whatever the number of references is, no more are needed.
    for _ in 0..3 {
        daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": POOL}));
    }
    assert_eq!(sandbox.reserved(NETWORK), [""; 0], "{what}");
    let records = sandbox.docker_state().join("records").join(NETWORK);
    assert_eq!(
        fs::read_dir(&records).into_iter().flatten().count(),
        0,
        "{what}"
    );
    // What has ended stays until Docker can't repeat the call any more.
    let [_, addresses] = memory(sandbox);
    let has_ended = |it: &String| it.ends_with("\"ended\"\n");
    assert!(addresses.iter().all(has_ended), "{what}: {addresses:?}");
}

/// An address is requested, and then Docker does this. Returns whether the daemon was
/// killed in the call.
fn address_is_kept(sandbox: &Sandbox, point: &Point, then: Then) -> bool {
    let (answer, was_killed) = kill_at(sandbox, point, REQUEST_ADDRESS);
    let what = format!("killed at {point:?}, then Docker {then:?}, {answer:?}");
    let daemon = DockerDaemon::start(sandbox, &[]);
    let own = match (then, answer) {
        // Docker has it, and calls for nothing.
        (_, Some(answer)) => Some(answer),
        (Then::Repeats, None) => {
            let again = daemon.try_call(REQUEST_ADDRESS.path, REQUEST_ADDRESS.body);
            Some(again.unwrap().body)
        }
        (Then::HasGone, None) => None,
    };
    if let Some(own) = own {
        let own = own["Address"].as_str().unwrap_or_else(|| panic!("{what}"));
        let own = own.strip_suffix("/29").unwrap();
        assert!(!["10.9.0.2", "10.9.0.3"].contains(&own), "{what}");
        assert_eq!(
            sandbox.reserved(NETWORK),
            ["10.9.0.2", "10.9.0.3", own],
            "{what}"
        );
        assert_eq!(sandbox.docker_memory("addresses").len(), 3, "{what}");
        // The container after it gets another one.
        let next = daemon.address(POOL, "");
        assert!(
            next != own && !["10.9.0.2", "10.9.0.3"].contains(&next.as_str()),
            "{what}"
        );
        daemon.release(POOL, &next);
        daemon.release(POOL, own);
        wait_for(|| sandbox.docker_memory("addresses").len() == 2);
        assert_eq!(
            sandbox.reserved(NETWORK),
            ["10.9.0.2", "10.9.0.3"],
            "{what}"
        );
    }
    assert_removed(sandbox, &daemon, then == Then::Repeats, &what);
    was_killed
}

/// The call is repeated if Docker has no answer, and leaves the state that one call leaves.
/// Returns whether the daemon was killed in the call.
fn is_done_once(sandbox: &Sandbox, point: &Point, victim: Victim, expected: &State) -> bool {
    let (answer, was_killed) = kill_at(sandbox, point, victim);
    let what = format!("{victim:?} killed at {point:?}, {answer:?}");
    let daemon = DockerDaemon::start(sandbox, &[]);
    if answer.is_none() {
        let again = daemon.try_call(victim.path, victim.body).unwrap();
        assert!(again.body.get("Err").is_none(), "{what}: {again:?}");
        wait_for(|| is_settled(sandbox) && state(sandbox).0 >= expected.0);
        assert_eq!(&state(sandbox), expected, "{what}");
    }
    assert_removed(sandbox, &daemon, true, &what);
    was_killed
}

/// True if one process may look into another here.
fn strace_works() -> bool {
    let strace = Command::new(STRACE)
        .args(["-qq", "-o", "/dev/null", "true"])
        .status();
    strace.is_ok_and(|it| it.success())
}

/// Leaves the tests out where strace may not trace.
fn can_trace() -> bool {
    let works = strace_works();
    if !works {
        harness::skip("docker_killed", "strace may not trace here");
    }
    works
}

/// Says how many points there were, and that they were points of the calls.
fn report(points: usize, killed: usize) {
    println!("of {points} points, {killed} before Docker had the answer");
    assert!(points > 100 && killed * 2 > points, "{killed} of {points}");
}

#[test]
fn no_address_is_lost_or_given_twice_or_leaked_wherever_the_daemon_is_killed() {
    needs!(STRACE);
    if !can_trace() {
        return;
    }
    let (all, killed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for then in [Then::Repeats, Then::HasGone] {
            let (all, killed) = (&all, &killed);
            scope.spawn(move || {
                let sandbox = Sandbox::default();
                let (points, _) = points(&sandbox, REQUEST_ADDRESS);
                all.fetch_add(points.len(), Ordering::Relaxed);
                for point in &points {
                    let was_killed = address_is_kept(&sandbox, point, then);
                    killed.fetch_add(usize::from(was_killed), Ordering::Relaxed);
                }
            });
        }
    });
    report(all.into_inner(), killed.into_inner());
}

#[test]
fn a_call_that_is_repeated_after_a_kill_is_done_once() {
    needs!(STRACE);
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::default();
    let (mut all, mut killed) = (0, 0);
    for victim in OTHERS {
        let (points, expected) = points(&sandbox, victim);
        all += points.len();
        let done = points
            .iter()
            .map(|point| is_done_once(&sandbox, point, victim, &expected));
        killed += done.filter(|was_killed| *was_killed).count();
    }
    report(all, killed);
}
