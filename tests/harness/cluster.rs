//! Cluster of three etcd members on one bridge, each in separate network, mount and PID
//! namespaces. Clients need a certificate.
//!
//! The cluster ends with the test, even if the test is killed: everything is in the namespaces and
//! in one temporary folder.

mod faults;
mod keys;
mod member;
mod status;

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::waiting::wait_or_say;
use crate::{Authority, CertificateFiles, ETCDCTL, Node};
use member::Member;

pub use faults::Cut;
pub use keys::ip_of_key;
use status::State;
pub use status::{metrics_of, sum_of_metric};

/// The number of members.
pub const MEMBERS: usize = 3;

/// The address of the clients, on the bridge.
const CLIENT: &str = "10.99.0.100";

/// The prefix of the keys.
pub const PREFIX: &str = "/ipam";

/// The cluster. Members are numbered from 0.
pub struct Cluster {
    /// The members end before their bridge and their folder.
    members: Vec<Member>,
    /// The namespaces of the clients, with the bridge.
    clients: Node,
    certificate: CertificateFiles,
    root: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until it is healthy. Its disks have the
    /// smallest size with which etcd works.
    ///
    /// # Errors
    ///
    /// Namespaces can't be made.
    pub fn start() -> Result<Self, String> {
        // etcd reserves two segments of its log, which take 128 MB.
        Self::with_disks("256m")
    }

    /// As [`Self::start`], with disks of this size, such as `4g`, in memory.
    pub fn with_disks(size: &str) -> Result<Self, String> {
        let root = TempDir::with_prefix("ipam-delegated-cluster-").unwrap();
        let clients = Node::try_new()?;
        clients.sh(&format!(
            "ip link add br0 type bridge
             ip addr add {CLIENT}/24 dev br0
             ip link set br0 up"
        ));
        let authority = Authority::new(root.path());
        let members = (0..MEMBERS)
            .map(|number| Member::on_bridge(number, root.path(), &clients, &authority, size))
            .collect::<Result<_, _>>()?;
        let mut cluster = Self {
            members,
            clients,
            certificate: authority.sign("client", &[]),
            root,
        };
        for number in 0..MEMBERS {
            cluster.start_member(number);
        }
        cluster.wait_until_healthy();
        Ok(cluster)
    }

    /// A folder that is removed with the cluster.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The URL of a member for clients.
    pub fn endpoint(&self, member: usize) -> String {
        format!("https://{}:2379", member::address(member))
    }

    /// The content of a settings file, which `ipam.etcd` names.
    pub fn config(&self) -> Value {
        let endpoints: Vec<String> = (0..MEMBERS).map(|number| self.endpoint(number)).collect();
        json!({
            "endpoints": endpoints,
            "ca": self.authority(),
            "cert": self.certificate.cert,
            "key": self.certificate.key,
            "prefix": PREFIX,
        })
    }

    /// The certificate of the authority that signed the members' certificates.
    fn authority(&self) -> PathBuf {
        self.root().join("ca.pem")
    }

    /// The clients' network namespace.
    pub fn clients(&self) -> Namespace {
        Namespace::of(&self.clients)
    }

    /// Runs `what` in the clients' network namespace.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                self.clients().enter();
                what()
            });
            entered.join().unwrap()
        })
    }

    /// Runs `etcdctl`; returns its stdout. A member that has come back may
    /// take seconds to answer.
    #[track_caller]
    pub fn etcdctl(&self, words: &[&str]) -> String {
        let endpoints: Vec<String> = (0..MEMBERS).map(|number| self.endpoint(number)).collect();
        let mut etcdctl = self.clients.command(ETCDCTL);
        etcdctl
            .arg("--cacert")
            .arg(self.authority())
            .arg("--cert")
            .arg(&self.certificate.cert)
            .arg("--key")
            .arg(&self.certificate.key)
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .args(["--dial-timeout=30s", "--command-timeout=30s"])
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("ETCDCTL_API", "3");
        let output = etcdctl.output().unwrap();
        assert!(output.status.success(), "etcdctl {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until all members are up and follow one leader.
    pub fn wait_until_healthy(&self) {
        self.wait_for("a healthy cluster", |states| {
            states.len() == MEMBERS && states.iter().all(|state| state.has_leader)
        });
    }

    /// The leader. Waits until there is exactly one.
    pub fn leader(&self) -> usize {
        let leaders = |states: &[State]| -> Vec<usize> {
            let leads = states.iter().filter(|state| state.is_leader);
            leads.map(|state| state.member).collect()
        };
        let states = self.wait_for("a leader", |states| leaders(states).len() == 1);
        leaders(&states)[0]
    }

    /// The states of all members that answer.
    fn states(&self) -> Vec<State> {
        self.inside(|| {
            let members = self.members.iter().enumerate();
            members
                .filter(|(_, member)| member.is_running())
                .filter_map(|(number, _)| State::of(number).ok())
                .collect()
        })
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&[State]) -> bool) -> Vec<State> {
        let states = RefCell::default();
        let is_there = || {
            states.replace(self.states());
            holds(&states.borrow())
        };
        wait_or_say(is_there, || format!("no {what}: {:?}", states.borrow()));
        states.into_inner()
    }
}

/// A network namespace.
pub struct Namespace(File);

impl Namespace {
    /// The network namespace of a node.
    pub fn of(node: &Node) -> Self {
        let namespace = format!("/proc/{}/ns/net", node.holder());
        Self(File::open(namespace).unwrap())
    }

    /// Moves the calling thread into this namespace, with all processes that the thread starts
    /// later.
    pub fn enter(&self) {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(self.0.as_fd(), network).unwrap();
    }
}
