//! SIGKILL at every point of a `RequestAddress`: before each system call that the daemon
//! makes for it. Then the daemon is started again, and Docker is told nothing: it repeats
//! the call, if it has no answer, or it gives up and removes the network.
//!
//! Another container has an address all the while, and keeps it.

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

/// A daemon with a pool and another container's address, and strace on it.
struct Traced {
    daemon: DockerDaemon,
    strace: Child,
    pool: String,
}

impl Traced {
    fn new(sandbox: &Sandbox, trace: &Path, expression: &str) -> Self {
        for folder in [sandbox.data_dir(), sandbox.docker_state()] {
            let _ = fs::remove_dir_all(folder);
        }
        let daemon = DockerDaemon::start(sandbox, &[]);
        let pool = daemon.pool("10.9.0.0/29", &json!({}));
        assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
        let strace = Command::new(STRACE)
            .args(["-f", "-qq", "-e", expression, "-o"])
            .arg(trace)
            .args(["-p", &daemon.id().to_string()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let it = Self {
            daemon,
            strace,
            pool,
        };
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

    /// The call, and whether there was an answer.
    fn request(&self) -> Option<Value> {
        self.daemon
            .try_call(PATH, &request(&self.pool))
            .ok()
            .map(|it| it.body)
    }

    fn end(mut self) {
        self.daemon.kill();
        self.strace.wait().unwrap();
    }
}

const PATH: &str = "/IpamDriver.RequestAddress";

/// The call, as dockerd makes it.
fn request(pool: &str) -> String {
    let options = json!({"com.docker.network.endpoint.macaddress": "02:42:0a:09:00:03"});
    json!({"PoolID": pool, "Address": "", "Options": options}).to_string()
}

/// The points of the call: for each system call, as many as any thread makes.
fn points(sandbox: &Sandbox) -> BTreeSet<Point> {
    let trace = sandbox.root().join("trace");
    let traced = Traced::new(sandbox, &trace, "trace=all");
    assert!(traced.request().is_some());
    // The last of it comes behind the answer.
    wait_for(|| fs::read_to_string(&trace).unwrap().contains("answered"));
    traced.end();
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let name = call.trim_start().split('(').next().unwrap_or_default();
        let is_call = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_call || name.is_empty() || !call.contains('(') {
            continue;
        }
        let time = times
            .entry((thread.to_owned(), name.to_owned()))
            .or_default();
        *time += 1;
        points.insert(Point {
            name: name.to_owned(),
            time: *time,
        });
    }
    points
}

/// Kills the daemon there, and looks at what is left when Docker has done what it does.
/// Returns whether it got there: threads wait for one another differently each time.
fn kill_at(sandbox: &Sandbox, point: &Point, then: Then) -> bool {
    let expression = format!("inject={}:signal=SIGKILL:when={}", point.name, point.time);
    let traced = Traced::new(sandbox, Path::new("/dev/null"), &expression);
    let was_killed_early = traced.was_killed();
    let answer = traced.request();
    let pool = traced.pool.clone();
    let was_killed = answer.is_none() && !was_killed_early;
    traced.end();
    let what = || format!("killed at {point:?}, then Docker {then:?}, {answer:?}");
    let daemon = DockerDaemon::start(sandbox, &[]);
    let own = match (then, &answer) {
        // Docker has it, and calls for nothing.
        (_, Some(answer)) => Some(answer.clone()),
        (Then::Repeats, None) => Some(daemon.try_call(PATH, &request(&pool)).unwrap().body),
        (Then::HasGone, None) => None,
    };
    if let Some(own) = own {
        let own = own["Address"]
            .as_str()
            .unwrap_or_else(|| panic!("{}", what()));
        let own = own.strip_suffix("/29").unwrap();
        assert_ne!(own, "10.9.0.2", "{}", what());
        assert_eq!(sandbox.reserved(NETWORK), ["10.9.0.2", own], "{}", what());
        assert_eq!(sandbox.docker_memory("addresses").len(), 2, "{}", what());
        // The container after it gets another one.
        let next = daemon.address(&pool, "");
        assert!(next != own && next != "10.9.0.2", "{}", what());
        daemon.release(&pool, &next);
        daemon.release(&pool, own);
        wait_for(|| sandbox.docker_memory("addresses").len() == 1);
        assert_eq!(sandbox.reserved(NETWORK), ["10.9.0.2"], "{}", what());
    }
    let records = sandbox.docker_state().join("records").join(NETWORK);
    let records = || fs::read_dir(&records).into_iter().flatten().count();
    assert_eq!(records(), sandbox.reserved(NETWORK).len(), "{}", what());
    daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    assert_eq!(sandbox.reserved(NETWORK), [""; 0], "{}", what());
    assert_eq!(records(), 0, "{}", what());
    assert_eq!(sandbox.docker_memory("addresses"), [""; 0], "{}", what());
    wait_for(|| sandbox.docker_memory("pools").is_empty());
    was_killed
}

/// True if one process may look into another here.
fn strace_works() -> bool {
    let strace = Command::new(STRACE)
        .args(["-qq", "-o", "/dev/null", "true"])
        .status();
    strace.is_ok_and(|it| it.success())
}

#[test]
fn no_address_is_lost_or_given_twice_or_leaked_wherever_the_daemon_is_killed() {
    needs!(STRACE);
    if !strace_works() {
        harness::skip("docker_killed", "strace may not trace here");
        return;
    }
    let (points_of_all, killed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for then in [Then::Repeats, Then::HasGone] {
            let (points_of_all, killed) = (&points_of_all, &killed);
            scope.spawn(move || {
                let sandbox = Sandbox::default();
                let points = points(&sandbox);
                points_of_all.fetch_add(points.len(), Ordering::Relaxed);
                for point in &points {
                    let was_killed = kill_at(&sandbox, point, then);
                    killed.fetch_add(usize::from(was_killed), Ordering::Relaxed);
                }
            });
        }
    });
    let (points, killed) = (points_of_all.into_inner(), killed.into_inner());
    println!("of {points} points, {killed} before Docker had the answer");
    assert!(points > 100 && killed * 2 > points, "{killed} of {points}");
}
