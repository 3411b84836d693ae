//! An etcd member: its namespaces, its disk, its process.

use std::fs;
use std::path::{Path, PathBuf};

use super::MEMBERS;
use crate::daemon::Daemon;
use crate::failure_report::last_lines;
use crate::{Authority, CertificateFiles, Node};

/// A member of the cluster.
pub(super) struct Member {
    number: usize,
    node: Node,
    /// The folder of its log.
    folder: PathBuf,
    certificate: CertificateFiles,
    process: Option<Daemon>,
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
        let arguments = format!(
            "--name={name} --data-dir=/var/lib/etcd/data \
             --listen-client-urls=https://{address}:2379 \
             --advertise-client-urls=https://{address}:2379 \
             --listen-peer-urls=https://{address}:2380 \
             --initial-advertise-peer-urls=https://{address}:2380 \
             --listen-metrics-urls=http://{address}:2381 \
             --initial-cluster={} --initial-cluster-token=ipam-test \
             --cert-file={cert} --key-file={key} \
             --peer-cert-file={cert} --peer-key-file={key} \
             --peer-client-cert-auth --peer-trusted-ca-file={ca} \
             --client-cert-auth --trusted-ca-file={ca} --logger=zap --log-outputs=stderr",
            peers.join(","),
        );
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let folder = Path::new("/usr/bin");
        let etcd = Daemon::start(&self.node, folder, "etcd", &arguments, &self.log());
        self.process = Some(etcd);
    }

    /// Sends its process a signal, by its name.
    pub(super) fn signal(&self, signal: &str) {
        if let Some(process) = &self.process {
            process.signal(&self.node, signal);
        }
    }

    /// Kills its process, if there is one, and waits for its end.
    pub(super) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill(&self.node);
        }
    }

    /// True if its process has ended without being killed.
    pub(super) fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut();
        process.is_some_and(Daemon::has_ended)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let lines = last_lines(&self.log());
            eprintln!("The log of {}:\n{lines}\n", name(self.number));
        }
    }
}
