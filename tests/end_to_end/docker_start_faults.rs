//! Fault walk of the daemon's start with strace: each system call fails in turn, including those
//! of the requests to Docker. No container loses its address, and the daemon loses no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::{
    ALL_POINTS, DockerDaemon, ERRORS, FakeDocker, FaultPoint, STRACE, Sandbox, is_answered, needs,
};
use serde_json::json;

use crate::kill_points::{can_trace, is_idle, traced_call};
use crate::waiting::wait_for;

const RESERVATIONS: &str = "docker-10.9.0.0-24";
const LIVING: [&str; 2] = ["10.9.0.2", "10.9.0.3"];

/// Longest wait for a start. If a thread ends early, the daemon prints nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// System calls that only end or start a thread or process.
const OMITTED: [&str; 6] = [
    "clock_nanosleep",
    "close",
    "execve",
    "exit",
    "exit_group",
    "sigaltstack",
];

/// A sandbox with a killed daemon: two containers have an address, and there is a gateway. Docker
/// has all of them.
fn killed() -> (Sandbox, FakeDocker) {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    for ip in LIVING {
        assert_eq!(daemon.address(&pool, ""), ip);
    }
    let options = json!({"RequestAddressType": "com.docker.network.gateway"});
    let gateway = json!({"PoolID": pool, "Address": "10.9.0.1", "Options": options});
    daemon.ok("/IpamDriver.RequestAddress", &gateway);
    let contents = || sandbox.docker_contents("addresses");
    wait_for(|| contents().iter().all(|content| is_answered(content)));
    daemon.kill();
    let container = |ip: &str| {
        let of_it = json!({"Name": ip, "EndpointID": ip, "IPv4Address": format!("{ip}/24")});
        (ip.to_owned(), of_it)
    };
    let containers: serde_json::Map<_, _> = LIVING.map(container).into_iter().collect();
    let network = json!({
        "Name": "net",
        "IPAM": {"Config": [{"Subnet": "10.9.0.0/24", "Gateway": "10.9.0.1"}]},
        "Containers": containers,
    });
    let docker = FakeDocker::start(&sandbox, [("a".to_owned(), network)].into());
    (sandbox, docker)
}

/// Starts the daemon below strace with these arguments. Kills it once it has compared its state
/// with Docker's, can't ask Docker, or `patience` is over.
fn start(sandbox: &Sandbox, strace: &[&str], patience: Duration) {
    let log = sandbox.root().join("docker-log");
    let line = sandbox.docker_daemon_arguments(&sandbox.docker_socket());
    let mut daemon = Command::new(STRACE)
        // The tracer is the child process: it ends with the daemon.
        .args(["-D", "-f", "-qq"])
        .args(strace)
        .args(&line)
        .arg("--unanswered-after=0s")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let started = Instant::now();
    let is_done = |daemon: &mut Child| {
        let log = fs::read_to_string(&log).unwrap();
        let is_told = |what| log.contains(what);
        is_told("compared with Docker")
            || is_told("Docker can't be asked")
            || daemon.try_wait().unwrap().is_some()
    };
    while !is_done(&mut daemon) && started.elapsed() < patience {
        sleep(Duration::from_millis(5));
    }
    let _ = daemon.kill();
    daemon.wait().unwrap();
}

/// The points of the daemon's start.
fn points(sandbox: &Sandbox) -> Vec<FaultPoint> {
    let trace = sandbox.root().join("trace");
    // Without a fault, the daemon always reaches the comparison.
    start(sandbox, &["-o", trace.to_str().unwrap()], 30 * PATIENCE);
    wait_for(|| fs::read_to_string(&trace).is_ok_and(|text| text.contains("+++ killed")));
    let text = fs::read(&trace).unwrap();
    let text = String::from_utf8_lossy(&text);
    let state = sandbox.docker_state();
    let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    let mut has_started = false;
    for line in text.lines() {
        // Earlier system calls are the loader's.
        has_started |= line.contains(state.to_str().unwrap()) && !line.contains("execve");
        let Some((thread, name, _)) = traced_call(line) else {
            continue;
        };
        let time = times.entry((thread, name)).or_default();
        *time += 1;
        if has_started && !is_idle(name) && !OMITTED.contains(&name) {
            points.insert((name.to_owned(), *time));
        }
    }
    let is_all = std::env::var_os(ALL_POINTS).is_some();
    let errors = |time: usize| match is_all {
        true => ERRORS.to_vec(),
        false => vec![ERRORS[time % ERRORS.len()]],
    };
    let each = |(name, time): (String, usize)| {
        let point = move |error| FaultPoint {
            name: name.clone(),
            time,
            error,
        };
        errors(time).into_iter().map(point)
    };
    points.into_iter().flat_map(each).collect()
}

/// The daemon's files of pools and addresses, and their first lines.
fn memory(sandbox: &Sandbox) -> BTreeMap<PathBuf, String> {
    let kinds = ["pools", "addresses"].into_iter();
    let first = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default().to_owned();
        (file, first)
    };
    kinds
        .flat_map(|kind| sandbox.docker_files(kind))
        .map(first)
        .collect()
}

#[test]
fn nothing_living_is_released_or_forgotten_whatever_fails_at_the_start() {
    needs!("root", STRACE);
    if !can_trace("docker_start_faults") {
        return;
    }
    let (sandbox, _docker) = killed();
    let before = memory(&sandbox);
    assert_eq!(before.len(), 4);
    let points = points(&sandbox);
    println!("{} points", points.len());
    assert!(points.len() > 50, "{points:?}");
    for point in &points {
        let FaultPoint { name, time, error } = point;
        let injection = format!("inject={name}:error={error}:when={time}");
        start(&sandbox, &["-o", "/dev/null", "-e", &injection], PATIENCE);
        let log = || fs::read_to_string(sandbox.root().join("docker-log")).unwrap();
        let reserved = sandbox.reserved(RESERVATIONS);
        assert_eq!(reserved, LIVING, "{point}: {}", log());
        assert_eq!(memory(&sandbox), before, "{point}: {}", log());
    }
    // After the faults, Docker can release everything.
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = "ipam-delegated-local//10.9.0.0/24";
    for ip in LIVING.iter().chain(&["10.9.0.1"]) {
        daemon.release(pool, ip);
    }
    daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
    wait_for(|| memory(&sandbox).is_empty());
}
