//! `docker-ipam-delegated` in a sandbox, called as Docker calls it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::waiting::wait_or_say;
use crate::{Background, DOCKER_DAEMON, Flavour, Node, REFERENCE_PLUGINS, Sandbox, executable};

/// A daemon that runs. It is killed when this is dropped.
pub struct DockerDaemon {
    process: Background,
    socket: PathBuf,
}

/// An answer of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerAnswer {
    /// The HTTP status code, such as 500.
    pub status: u16,
    /// The JSON of the body.
    pub body: Value,
}

impl Sandbox {
    /// The state folder of the daemon.
    pub fn docker_state(&self) -> PathBuf {
        self.root().join("docker-state")
    }

    /// The socket of the daemon.
    pub fn docker_socket(&self) -> PathBuf {
        self.root().join("ipam-delegated.sock")
    }

    /// The socket of the Docker API that the daemon uses.
    pub fn docker_api(&self) -> PathBuf {
        self.root().join("docker.sock")
    }

    /// The daemon's command line, with all of its folders in the sandbox.
    pub fn docker_daemon_arguments(&self, socket: &Path) -> Vec<String> {
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        vec![
            docker_daemon_executable().display().to_string(),
            option("socket", socket),
            option("docker-socket", &self.docker_api()),
            option("state-dir", &self.docker_state()),
            option("data-dir", &self.data_dir()),
            option("conf-dir", &self.conf_dir()),
            format!(
                "--cni-path={}:{REFERENCE_PLUGINS}",
                self.plugins().display()
            ),
        ]
    }

    /// The daemon's files of one kind, sorted. Kinds: `networks`; `addresses` and `endpoints`
    /// (records).
    pub fn docker_files(&self, kind: &str) -> Vec<PathBuf> {
        let state = self.docker_state();
        let mut files = match kind {
            "addresses" => {
                let mut files = in_folders(&state.join("records"));
                files.extend(in_folders(&self.state_dir()));
                files.retain(|file| is_of_address(file));
                files
            }
            "endpoints" => in_folders(&state.join("endpoints")),
            kind => entries(&state.join(kind)),
        };
        files.sort();
        files
    }

    /// The contents of the daemon's files of one kind.
    pub fn docker_contents(&self, kind: &str) -> Vec<String> {
        let files = self.docker_files(kind).into_iter();
        let contents = files.map(|file| fs::read_to_string(file).unwrap_or_default());
        contents.filter(|content| !content.is_empty()).collect()
    }
}

/// A pool ID of a subnet without a network configuration.
pub fn docker_pool(subnet: &str) -> String {
    json!({"id": "a", "subnet": subnet}).to_string()
}

/// True if the content of a record says that Docker has the address: its ADD has succeeded, and no
/// DEL has begun.
pub fn is_answered(content: &str) -> bool {
    let last = content.lines().last().unwrap_or_default();
    last == "{\"added\":{}}"
        || (last.starts_with("{\"caller\"") && content.contains("{\"added\":{}}\n"))
}

/// True if this is the record of an address of Docker's.
fn is_of_address(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("docker-") && name.ends_with(":eth0.json"))
}

fn in_folders(path: &Path) -> Vec<PathBuf> {
    entries(path)
        .iter()
        .flat_map(|folder| entries(folder))
        .collect()
}

/// The entries of a folder; none if it is missing.
fn entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The path of the daemon's executable.
pub fn docker_daemon_executable() -> PathBuf {
    executable(DOCKER_DAEMON, Flavour::Normal)
}

impl DockerDaemon {
    /// Starts the daemon with further arguments, and waits until it answers.
    pub fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::start_by(sandbox, arguments, |program| Command::new(program))
    }

    /// Starts the daemon with further arguments in the namespaces of a node.
    pub fn start_on(node: &Node, sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::start_by(sandbox, arguments, |program| node.command(program))
    }

    fn start_by(
        sandbox: &Sandbox,
        arguments: &[&str],
        command: impl FnOnce(&str) -> Command,
    ) -> Self {
        let _ = fs::create_dir_all(sandbox.conf_dir());
        let socket = sandbox.docker_socket();
        let line = sandbox.docker_daemon_arguments(&socket);
        let log = sandbox.root().join("docker-log");
        let _ = fs::remove_file(&log);
        let mut command = command(&line[0]);
        command.args(&line[1..]).args(arguments);
        command.env("IPAM_DELEGATED_STATE_DIR", sandbox.state_dir());
        let process = Background::start(&mut command, &log);
        let mut daemon = Self { process, socket };
        let log = || fs::read_to_string(&log).unwrap();
        let answers = || {
            assert!(!daemon.process.has_ended(), "it has ended: {}", log());
            daemon.try_call("/Plugin.Activate", "").is_ok()
        };
        wait_or_say(answers, log);
        daemon
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Makes a call; returns the answer.
    ///
    /// # Errors
    ///
    /// The daemon has ended before its answer.
    pub fn try_call(&self, path: &str, body: &str) -> io::Result<DockerAnswer> {
        post(&self.socket, path, body)
    }

    /// Makes a call; returns the answer.
    #[track_caller]
    pub fn call(&self, path: &str, body: &Value) -> DockerAnswer {
        self.try_call(path, &body.to_string()).unwrap()
    }

    /// Makes a call that must succeed; returns the body of the answer.
    #[track_caller]
    pub fn ok(&self, path: &str, body: &Value) -> Value {
        let answer = self.call(path, body);
        let failed = answer.body.get("Err").is_some();
        assert!(answer.status == 200 && !failed, "{path} {body}: {answer:?}");
        answer.body
    }

    /// Makes a call that must fail; returns the message.
    #[track_caller]
    pub fn err(&self, path: &str, body: &Value) -> String {
        let answer = self.call(path, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body["Err"], answer.body["Error"]);
        let message = answer.body["Err"].as_str();
        message
            .unwrap_or_else(|| panic!("{path} {body}: {answer:?}"))
            .to_owned()
    }

    /// Requests a pool in Docker's default address space; returns its ID.
    #[track_caller]
    pub fn pool(&self, subnet: &str, options: &Value) -> String {
        let body =
            json!({"AddressSpace": "ipam-delegated-local", "Pool": subnet, "Options": options});
        let pool = self.ok("/IpamDriver.RequestPool", &body);
        pool["PoolID"].as_str().unwrap().to_owned()
    }

    /// Requests a pool that isn't given; returns the message.
    #[track_caller]
    pub fn no_pool(&self, subnet: &str, options: &Value) -> String {
        let body =
            json!({"AddressSpace": "ipam-delegated-local", "Pool": subnet, "Options": options});
        self.err("/IpamDriver.RequestPool", &body)
    }

    /// Requests an address; returns it without its prefix length.
    #[track_caller]
    pub fn address(&self, pool: &str, requested: &str) -> String {
        let options = json!({"com.docker.network.endpoint.name": "web"});
        let body = json!({"PoolID": pool, "Address": requested, "Options": options});
        let given = self.ok("/IpamDriver.RequestAddress", &body);
        let (ip, _) = given["Address"].as_str().unwrap().split_once('/').unwrap();
        ip.to_owned()
    }

    /// Releases an address of a pool; `ip` is without a prefix.
    #[track_caller]
    pub fn release(&self, pool: &str, ip: &str) {
        let body = json!({"PoolID": pool, "Address": ip});
        assert_eq!(self.ok("/IpamDriver.ReleaseAddress", &body), json!({}));
    }

    /// Requests an address that isn't given; returns the message.
    #[track_caller]
    pub fn no_address(&self, pool: &str, ip: &str) -> String {
        let body = json!({"PoolID": pool, "Address": ip});
        self.err("/IpamDriver.RequestAddress", &body)
    }

    /// Requests a gateway; returns the body of the answer.
    #[track_caller]
    pub fn gateway(&self, pool: &str, requested: &str) -> Value {
        let options = json!({"RequestAddressType": "com.docker.network.gateway"});
        let body = json!({"PoolID": pool, "Address": requested, "Options": options});
        self.call("/IpamDriver.RequestAddress", &body).body
    }

    /// Gives a pool back.
    #[track_caller]
    pub fn release_pool(&self, pool: &str) {
        let body = json!({ "PoolID": pool });
        assert_eq!(self.ok("/IpamDriver.ReleasePool", &body), json!({}));
    }

    /// Kills it, with SIGKILL.
    pub fn kill(self) {
        drop(self);
    }

    /// Waits for its end; true if it was successful.
    pub fn wait(self) -> bool {
        self.process.wait()
    }
}

/// The bytes of a call.
pub fn docker_request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {}\r\n\
         Accept: application/vnd.docker.plugins.v1.2+json\r\n\r\n{body}",
        body.len()
    )
}

/// Reads an answer to its end.
///
/// # Errors
///
/// The connection was closed before the end of the answer.
pub fn read_docker_answer(mut stream: &UnixStream) -> io::Result<DockerAnswer> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, format!("{text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok(DockerAnswer {
        status: status.ok_or_else(cut)?,
        body: serde_json::from_str(body).map_err(|_| cut())?,
    })
}

fn post(socket: &Path, path: &str, body: &str) -> io::Result<DockerAnswer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(docker_request(path, body).as_bytes())?;
    let answer = read_docker_answer(&stream);
    let _ = stream.shutdown(Shutdown::Both);
    answer
}
