//! The daemon's socket: who may call, resistance to bad requests, and its end.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use harness::{
    Background, DockerDaemon, Sandbox, docker_request, needs, read_docker_answer, repository,
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;

use crate::calls::{started, started_with};
use harness::waiting::{held_lock, wait_for, wait_until_equal};

const NETWORK: &str = "docker";

fn connect(sandbox: &Sandbox) -> UnixStream {
    UnixStream::connect(sandbox.docker_socket()).unwrap()
}

fn request_address(pool: &str, number: usize) -> String {
    let mac = format!("02:42:00:00:{:02x}:{:02x}", number / 256, number % 256);
    let options = json!({"com.docker.network.endpoint.macaddress": mac});
    let body = json!({"PoolID": pool, "Address": "", "Options": options});
    docker_request("/IpamDriver.RequestAddress", &body.to_string())
}

/// A request for an address that waits for a lock.
struct Waiting {
    sandbox: Sandbox,
    daemon: DockerDaemon,
    pool: String,
    lock: File,
    stream: UnixStream,
}

impl Waiting {
    /// Sends the request, runs `then`, and waits until the daemon works on the request.
    fn start(then: impl FnOnce(&UnixStream)) -> Self {
        Self::start_with(|pool| request_address(pool, 1), then)
    }

    /// As [`Self::start`], with this request.
    fn start_with(request: impl FnOnce(&str) -> String, then: impl FnOnce(&UnixStream)) -> Self {
        let (sandbox, daemon, pool) = started_with("10.9.0.0/16");
        let lock = held_lock(&sandbox, NETWORK);
        let mut stream = connect(&sandbox);
        stream.write_all(request(&pool).as_bytes()).unwrap();
        then(&stream);
        wait_until_equal(|| sandbox.docker_files("addresses").len(), 1);
        Self {
            sandbox,
            daemon,
            pool,
            lock,
            stream,
        }
    }
}

#[test]
fn a_request_of_100_mb_a_slow_one_and_a_torn_one_keep_nobody_waiting() {
    let (sandbox, daemon, pool) = started_with("10.9.0.0/16");
    // None of these ever completes its request.
    let slow: Vec<UnixStream> = (0..50)
        .map(|i| {
            let whole = request_address(&pool, i);
            let mut stream = connect(&sandbox);
            stream.write_all(&whole.as_bytes()[..10 + i * 3]).unwrap();
            stream
        })
        .collect();
    let mut torn = connect(&sandbox);
    torn.write_all(b"POST /IpamDriver.RequestAddress HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        .unwrap();
    drop(torn);
    let mut garbage = connect(&sandbox);
    garbage.write_all(b"\x16\x03\x01\x00\xff").unwrap();
    drop(garbage);
    let mut large = connect(&sandbox);
    let body = 100_000_000;
    let head = format!(
        "POST /IpamDriver.RequestPool HTTP/1.1\r\nHost: x\r\nContent-Length: {body}\r\n\r\n"
    );
    large.write_all(head.as_bytes()).unwrap();
    let answer = read_docker_answer(&large).unwrap();
    assert_eq!(answer.status, 413);
    assert_eq!(answer.body["Err"], "the request is larger than 1 MiB");
    let chunk = vec![b'x'; 1 << 20];
    // A chunked request has no length, so only its head is read.
    let mut chunked = connect(&sandbox);
    chunked
        .write_all(b"POST /IpamDriver.RequestPool HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    let sent = (0..100).take_while(|_| {
        let head = format!("{:x}\r\n", chunk.len());
        let parts = [head.as_bytes(), &chunk, b"\r\n"];
        parts.iter().all(|part| chunked.write_all(part).is_ok())
    });
    assert!(sent.count() < 100);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.1");
    drop(slow);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    assert_eq!(sandbox.reserved(NETWORK).len(), 2);
}

#[test]
fn a_peer_that_has_said_all_and_closed_its_half_is_answered() {
    let waiting = Waiting::start(|stream| stream.shutdown(Shutdown::Write).unwrap());
    drop(waiting.lock);
    let answer = read_docker_answer(&waiting.stream).unwrap();
    assert_eq!(answer.body["Address"], "10.9.0.1/16");
}

/// A caller is gone before the answer to this request.
fn is_released(request: impl FnOnce(&str) -> String) {
    let waiting = Waiting::start_with(request, |_| ());
    drop(waiting.stream);
    drop(waiting.lock);
    let sandbox = &waiting.sandbox;
    wait_for(|| sandbox.docker_files("addresses").is_empty());
    assert_eq!(sandbox.reserved(NETWORK), [""; 0]);
}

#[test]
fn an_address_that_nobody_waits_for_any_more_is_released() {
    is_released(|pool| request_address(pool, 1));
}

#[test]
fn a_chosen_subnet_that_nobody_waits_for_any_more_is_released() {
    let body = json!({"AddressSpace": "ipam-delegated-local", "Pool": ""}).to_string();
    is_released(|_| docker_request("/IpamDriver.RequestPool", &body));
}

#[test]
fn the_units_limit_of_files_is_enough_for_a_thousand_requests_at_once() {
    let unit = "crates/docker-ipam-delegated/systemd/docker-ipam-delegated.service";
    let unit = fs::read_to_string(repository().join(unit)).unwrap();
    let limit = unit
        .lines()
        .find_map(|line| line.strip_prefix("LimitNOFILE="));
    let limit: u64 = limit.unwrap().parse().unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    if maximum.is_some_and(|maximum| maximum < limit) {
        let reason = format!("its processes may not have {limit} open files");
        harness::skip(&reason);
        return;
    }
    // The daemon inherits it.
    let current = Some(limit);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    let count = 1000;
    let (sandbox, _daemon, pool) = started_with("10.9.0.0/16");
    let streams: Vec<UnixStream> = (0..count).map(|_| connect(&sandbox)).collect();
    thread::scope(|scope| {
        for (i, mut stream) in streams.iter().enumerate() {
            let request = request_address(&pool, i);
            scope.spawn(move || stream.write_all(request.as_bytes()).unwrap());
        }
    });
    let given: BTreeSet<String> = streams
        .iter()
        .map(|stream| read_docker_answer(stream).unwrap().body["Address"].to_string())
        .collect();
    assert_eq!(given.len(), count);
    assert_eq!(sandbox.reserved(NETWORK).len(), count);
    assert_eq!(sandbox.docker_files("addresses").len(), count);
}

#[test]
fn sigterm_ends_the_daemon_after_the_calls_that_are_running() {
    let Waiting {
        sandbox,
        daemon,
        pool,
        lock,
        stream,
    } = Waiting::start(|_| ());
    daemon.signal(Signal::TERM);
    wait_for(|| !sandbox.docker_socket().exists());
    drop(lock);
    assert_eq!(
        read_docker_answer(&stream).unwrap().body["Address"],
        "10.9.0.1/16"
    );
    assert!(daemon.wait());
    // The answer was delivered, so the same call again is for another container.
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let mut stream = connect(&sandbox);
    stream
        .write_all(request_address(&pool, 1).as_bytes())
        .unwrap();
    assert_eq!(
        read_docker_answer(&stream).unwrap().body["Address"],
        "10.9.0.2/16"
    );
    drop(daemon);
}

#[test]
fn a_peer_that_is_not_root_is_refused() {
    needs!("root", "/usr/bin/python3");
    let (sandbox, _daemon) = started();
    let socket = sandbox.docker_socket();
    let mode = || fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let call = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
        s.sendall(b'POST /Plugin.Activate HTTP/1.1\\r\\nContent-Length: 0\\r\\n\\r\\n')\n\
        print(s.recv(1000).decode())";
    let as_nobody = || {
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", call]).arg(&socket).uid(65534).gid(65534);
        let output = python.stderr(Stdio::piped()).output().unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    fs::set_permissions(sandbox.root(), Permissions::from_mode(0o755)).unwrap();
    assert!(as_nobody().contains("PermissionError"));
    // Even if somebody makes the socket accessible to all.
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let answer = as_nobody();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("user 65534 may not call"), "{answer}");
}

#[test]
fn a_second_daemon_is_refused_and_a_killed_ones_socket_is_replaced() {
    let (sandbox, daemon) = started();
    let second = |sandbox: &Sandbox, socket: PathBuf| {
        let line = sandbox.docker_daemon_arguments(&socket);
        let output = Command::new(&line[0]).args(&line[1..]).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let socket = sandbox.docker_socket();
    let said = second(&Sandbox::default(), socket.clone());
    assert!(said.contains("another daemon listens there"), "{said}");
    // The state folder is locked first: a second daemon with the same folder touches no socket.
    let other = sandbox.root().join("other.sock");
    drop(UnixListener::bind(&other).unwrap());
    let said = second(&sandbox, other.clone());
    assert!(said.contains("another daemon has it"), "{said}");
    assert!(other.exists());
    daemon.kill();
    assert!(socket.exists());
    DockerDaemon::start(&sandbox, &[]);
}

#[test]
fn systemd_takes_the_units() {
    needs!("/usr/bin/systemd-analyze");
    let folder = repository().join("crates/docker-ipam-delegated/systemd");
    let sandbox = Sandbox::default();
    // The service names an installed executable.
    let service = fs::read_to_string(folder.join("docker-ipam-delegated.service")).unwrap();
    let daemon = harness::docker_daemon_executable();
    let service = service.replace(
        "/usr/local/sbin/docker-ipam-delegated",
        daemon.to_str().unwrap(),
    );
    let units = sandbox.root();
    fs::write(units.join("docker-ipam-delegated.service"), service).unwrap();
    let socket = units.join("docker-ipam-delegated.socket");
    fs::copy(folder.join("docker-ipam-delegated.socket"), &socket).unwrap();
    let verified = Command::new("/usr/bin/systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args([&socket, &units.join("docker-ipam-delegated.service")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // On a machine that systemd has not booted, it also complains about other units.
    assert!(!said.contains("docker-ipam-delegated"), "{said}");
}

#[test]
fn a_socket_of_systemds_is_used() {
    needs!("/usr/bin/python3");
    let sandbox = Sandbox::default();
    let socket = sandbox.docker_socket();
    // As systemd does: the socket is file 3, and a variable has the process ID.
    let activate = "import os,socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n\
        os.dup2(s.fileno(),3)\nos.set_inheritable(3,True)\n\
        os.environ['LISTEN_FDS']='1'\nos.environ['LISTEN_PID']=str(os.getpid())\n\
        os.execv(sys.argv[2],sys.argv[2:])";
    let line = sandbox.docker_daemon_arguments(&sandbox.root().join("unused.sock"));
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", activate]).arg(&socket).args(&line);
    let daemon = Background::start(&mut python, &sandbox.root().join("log"));
    wait_for(|| socket.exists() && UnixStream::connect(&socket).is_ok());
    let mut stream = connect(&sandbox);
    stream
        .write_all(docker_request("/Plugin.Activate", "").as_bytes())
        .unwrap();
    assert_eq!(
        read_docker_answer(&stream).unwrap().body,
        json!({"Implements": ["IpamDriver", "NetworkDriver"]})
    );
    daemon.signal(Signal::TERM);
    assert!(daemon.wait());
    // systemd owns the socket, so it stays.
    assert!(socket.exists());
}
