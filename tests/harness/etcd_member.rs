//! An etcd cluster of one member, on ports of the loopback interface.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Background;
use crate::waiting::wait_or_say;
use tempfile::TempDir;

/// The executable of Debian's `etcd-server`.
pub const ETCD: &str = "/usr/bin/etcd";

/// The executable of Debian's `etcd-client`.
pub const ETCDCTL: &str = "/usr/bin/etcdctl";

/// A running member. Dropping it kills the member and removes its data.
pub struct EtcdMember {
    folder: TempDir,
    process: Option<Background>,
    ports: [u16; 2],
    scheme: &'static str,
    arguments: Vec<String>,
    /// Arguments of etcdctl, for TLS.
    client_arguments: Vec<String>,
}

impl Default for EtcdMember {
    fn default() -> Self {
        Self::start(&[])
    }
}

impl EtcdMember {
    /// Starts a member without TLS, with these further arguments.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with("http", arguments, &[])
    }

    /// Starts a member whose client URL is https. `client_arguments` are etcdctl's.
    pub fn start_with_tls(arguments: &[&str], client_arguments: &[&str]) -> Self {
        Self::start_with("https", arguments, client_arguments)
    }

    fn start_with(scheme: &'static str, arguments: &[&str], client_arguments: &[&str]) -> Self {
        let texts = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
        let mut it = Self {
            folder: folder(),
            process: None,
            ports: free_ports(),
            scheme,
            arguments: texts(arguments),
            client_arguments: texts(client_arguments),
        };
        it.restart();
        it
    }

    /// Starts it again with its data after it was killed.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
        let log = self.log();
        let log = || fs::read_to_string(&log).unwrap_or_default();
        let is_ready = || {
            let has_ended = self.process.as_mut().is_some_and(Background::has_ended);
            assert!(!has_ended, "etcd has ended: {}", log());
            self.is_ready()
        };
        wait_or_say(is_ready, log);
    }

    /// Replaces its data with a snapshot, and starts it again.
    pub fn restore(&mut self, snapshot: &Path) {
        self.kill();
        let data = self.folder.path().join("data");
        fs::remove_dir_all(&data).unwrap();
        let peers = format!("http://127.0.0.1:{}", self.ports[1]);
        let mut etcdctl = Command::new(ETCDCTL);
        etcdctl
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore", "--name", "test"])
            .args(["--initial-cluster", &format!("test={peers}")])
            .args(["--initial-advertise-peer-urls", &peers])
            .arg("--data-dir")
            .arg(&data)
            .arg(snapshot);
        let output = etcdctl.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        self.restart();
    }

    /// Starts it again with its data on other ports.
    pub fn move_to_other_ports(&mut self) {
        self.kill();
        // The port of its peers is in its data.
        self.ports[0] = free_ports()[0];
        self.restart();
    }

    fn launch(&mut self) {
        let [_, peers] = self.ports;
        let peers = format!("http://127.0.0.1:{peers}");
        let _ = fs::remove_file(self.log());
        let mut etcd = Command::new(ETCD);
        etcd.env_clear()
            .args([
                "--name",
                "test",
                "--logger",
                "zap",
                "--log-outputs",
                "stderr",
            ])
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &self.url()])
            .args(["--advertise-client-urls", &self.url()])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("test={peers}")])
            .args(&self.arguments);
        self.process = Some(Background::start(&mut etcd, &self.log()));
    }

    /// True if it serves clients, which requires a leader. Read from its log: etcdctl would need a
    /// certificate and a user.
    fn is_ready(&self) -> bool {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.contains("serving client traffic")
    }

    /// The URL for its clients, without a path.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.ports[0])
    }

    /// A folder that is removed with the member.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of its stderr.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("etcd is running").id()
    }

    /// Sends it a signal, such as `STOP` and `CONT`.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &self.pid().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Kills it, with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    fn etcdctl(&self) -> Command {
        let mut command = Command::new(ETCDCTL);
        command
            .env_clear()
            .env("ETCDCTL_API", "3")
            .args([
                "--endpoints",
                &self.url(),
                "--dial-timeout=30s",
                "--command-timeout=60s",
            ])
            .args(&self.client_arguments);
        command
    }

    /// Runs etcdctl; returns its stdout.
    #[track_caller]
    pub fn ctl<T: AsRef<OsStr>>(&self, arguments: &[T]) -> String {
        let output = self.etcdctl().args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Creates the user `user` (`name:password`, or `name` without a password) with write access
    /// to all keys of the project, and enables authentication.
    pub fn enable_authentication(&self, user: &str) {
        let (name, _) = user.split_once(':').unwrap_or((user, ""));
        let new = |user: &str| match user.contains(':') {
            true => format!("user add {user}"),
            false => format!("user add {user} --no-password"),
        };
        let root = if user == name { "root" } else { "root:secret" };
        for line in [
            &new(root),
            "user grant-role root root",
            "role add ipam",
            "role grant-permission ipam readwrite --prefix=true /ipam/",
            &new(user),
            &format!("user grant-role {name} ipam"),
            "auth enable",
        ] {
            self.ctl(&line.split(' ').collect::<Vec<_>>());
        }
    }

    /// The keys with this prefix, sorted, without the prefix.
    #[track_caller]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let listed = self.ctl(&["get", prefix, "--prefix", "--keys-only"]);
        let keys = listed.lines().filter_map(|key| key.strip_prefix(prefix));
        keys.map(str::to_owned).collect()
    }

    /// The keys with this prefix, sorted, without the prefix, and their values.
    #[track_caller]
    pub fn values(&self, prefix: &str) -> Vec<(String, String)> {
        let listed = self.ctl(&["get", prefix, "--prefix"]);
        let lines: Vec<&str> = listed.lines().collect();
        let key_and_value = |pair: &[&str]| {
            let key = pair[0].strip_prefix(prefix).expect("a key with the prefix");
            (key.to_owned(), pair[1].to_owned())
        };
        lines.chunks(2).map(key_and_value).collect()
    }

    /// The value of a key; empty if it doesn't exist.
    #[track_caller]
    pub fn value(&self, key: &str) -> String {
        let value = self.ctl(&["get", key, "--print-value-only"]);
        value.trim_end_matches('\n').to_owned()
    }

    /// Writes a key.
    #[track_caller]
    pub fn put(&self, key: &str, value: &str) {
        self.ctl(&["put", key, value]);
    }
}

/// A folder for the data, in memory if possible, as none of it must persist.
fn folder() -> TempDir {
    let mut folder = tempfile::Builder::new();
    folder.prefix("ipam-delegated-etcd-");
    let in_memory = folder.tempdir_in("/dev/shm");
    in_memory.or_else(|_| folder.tempdir()).unwrap()
}

/// Two free ports outside of the kernel's range for outgoing connections: such a connection could
/// take a port before etcd listens, or during a restart.
fn free_ports() -> [u16; 2] {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = loop {
        let port = fastrand::u16(10_000..32_000);
        if is_free(&port) && is_free(&(port + 1)) {
            break port;
        }
    };
    [first, first + 1]
}
