//! An etcd member: its namespaces, its disk, its process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::MEMBERS;
use crate::{Authority, CertificateFiles, ETCD, Node};

/// A member of the cluster.
pub(super) struct Member {
    number: usize,
    node: Node,
    /// The folder of its log.
    folder: PathBuf,
    certificate: CertificateFiles,
    process: Option<Child>,
}

/// State of a member's disk, which is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// There is free space.
    Free,
    /// Every block is used.
    Full,
}

/// The name of a member, and of its port of the bridge.
pub(super) fn name(member: usize) -> String {
    format!("m{member}")
}

/// The IP address of a member.
pub(super) fn address(member: usize) -> String {
    format!("10.99.0.{}", member + 1)
}

impl Member {
    /// Creates a member's namespaces, with a port of the bridge.
    pub(super) fn on_bridge(
        number: usize,
        root: &Path,
        bridge: &Node,
        authority: &Authority,
        size_of_disk: &str,
    ) -> Result<Self, String> {
        let node = Node::with_own_processes()?;
        let (name, address) = (name(number), address(number));
        bridge.sh(&format!(
            "ip link add {name} type veth peer name eth0 netns {}
             ip link set {name} master br0 up",
            node.holder()
        ));
        node.sh(&format!(
            "ip addr add {address}/24 dev eth0
             ip link set eth0 up
             mkdir /var/lib/etcd
             mount -t tmpfs -o size={size_of_disk},mode=0700 none /var/lib/etcd"
        ));
        let folder = root.join(&name);
        fs::create_dir(&folder).unwrap();
        let certificate = authority.sign(&name, &[&address]);
        Ok(Self {
            number,
            node,
            folder,
            certificate,
            process: None,
        })
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// True if its process was started and not killed.
    pub(super) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Starts its process.
    pub(super) fn start(&mut self, authority: &Path) {
        assert!(!self.is_running(), "member {} is running", self.number);
        let number = self.number;
        let (cert, key) = (
            self.certificate.cert.display(),
            self.certificate.key.display(),
        );
        let (name, address, ca) = (name(number), address(number), authority.display());
        let peers: Vec<String> = (0..MEMBERS)
            .map(|number| {
                format!(
                    "{}=https://{}:2380",
                    self::name(number),
                    self::address(number)
                )
            })
            .collect();
        let script = format!(
            "echo $$ > /run/etcd.pid
             exec {ETCD} --name={name} --data-dir=/var/lib/etcd/data \
             --listen-client-urls=https://{address}:2379 \
             --advertise-client-urls=https://{address}:2379 \
             --listen-peer-urls=https://{address}:2380 \
             --initial-advertise-peer-urls=https://{address}:2380 \
             --listen-metrics-urls=http://{address}:2381 \
             --initial-cluster={} --initial-cluster-token={name_of_cluster} \
             --cert-file={cert} --key-file={key} \
             --peer-cert-file={cert} --peer-key-file={key} \
             --peer-client-cert-auth --peer-trusted-ca-file={ca} \
             --client-cert-auth --trusted-ca-file={ca} --logger=zap --log-outputs=stderr",
            peers.join(","),
            name_of_cluster = "ipam-test",
        );
        let log = File::options().create(true).append(true).open(self.log());
        let process = self
            .node
            .command("sh")
            .args(["-ec", &script])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        self.process = Some(process.unwrap());
    }

    /// Sends its process a signal, by its name.
    pub(super) fn signal(&self, signal: &str) {
        // The process may have ended already.
        self.node
            .succeeds(&format!("kill -{signal} $(cat /run/etcd.pid)"));
    }

    /// Continues its process after SIGSTOP.
    pub(super) fn go_on(&self) {
        self.signal("CONT");
        // `nsenter` stops itself when its child is stopped.
        if let Some(process) = &self.process {
            let _ = kill_process(Pid::from_child(process), Signal::CONT);
        }
    }

    /// Kills its process, if there is one, and waits for its end.
    pub(super) fn kill(&mut self) {
        self.signal("KILL");
        self.go_on();
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
        }
    }

    /// Fills its disk, or frees it again.
    pub(super) fn set_disk(&self, disk: Disk) {
        match disk {
            // This fails when the disk is full, which is intended.
            Disk::Full => self
                .node
                .succeeds("dd if=/dev/zero of=/var/lib/etcd/filler bs=4k 2>/dev/null"),
            Disk::Free => self.node.succeeds("rm -f /var/lib/etcd/filler"),
        };
    }

    /// True if its process has ended without being killed.
    pub(super) fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut();
        process.is_some_and(|process| process.try_wait().unwrap().is_some())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(15)..];
            eprintln!("The log of {}:\n{}\n", name(self.number), last.join("\n"));
        }
    }
}
