//! The control plane of a cluster: etcd, API server, controllers and scheduler, in one PID and one
//! network namespace, with the bridge between the nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::daemon::Daemon;
use crate::waiting::wait_or_say;
use crate::{Node, kubernetes_programs};

/// The network of control plane and nodes.
const NETWORK: &str = "10.123.0";

/// The client URL of etcd.
pub(super) const ETCD: &str = "http://10.123.0.1:2379";

/// The administrator's token, whose group may do everything.
pub(super) const ADMINISTRATOR: &str = "administrator";

/// A running control plane.
pub struct ControlPlane {
    node: Node,
    ca: Option<PathBuf>,
    folder: PathBuf,
    daemons: Vec<Daemon>,
    /// Further arguments of the API server.
    api_server_arguments: Vec<String>,
}

impl ControlPlane {
    /// The address of the API server.
    pub(super) const HOST: &str = "10.123.0.1";

    /// Host and port of the API server.
    pub(super) const API: &str = "10.123.0.1:6443";

    /// Starts etcd and the API server with these further arguments. Doesn't wait for them. `ca` is
    /// the file of the authority if the arguments have a certificate.
    pub(super) fn launch(
        root: &Path,
        ca: Option<PathBuf>,
        api_server_arguments: &[String],
    ) -> Result<Self, String> {
        let folder = root.join("control-plane");
        fs::create_dir_all(&folder).unwrap();
        let node = Node::with_own_processes()?;
        node.sh(&format!(
            "ip link add nodes type bridge
             ip addr add {NETWORK}.1/24 dev nodes
             ip link set nodes up
             ip link add second type bridge
             ip link set second up"
        ));
        let mut plane = Self {
            node,
            ca,
            folder,
            daemons: Vec::new(),
            api_server_arguments: api_server_arguments.to_vec(),
        };
        plane.write_files();
        plane.launch_etcd();
        plane.launch_api_server();
        Ok(plane)
    }

    /// Starts etcd with its existing data.
    pub(super) fn launch_etcd(&mut self) {
        self.start("etcd36", &["/run/etcd.yaml".to_owned()]);
    }

    /// Starts the API server.
    pub(super) fn launch_api_server(&mut self) {
        let token_file = self.path("tokens");
        let [public, private] = [self.path("sa.pub"), self.path("sa.key")];
        let mut arguments = vec![
            format!("--etcd-servers={ETCD}"),
            format!("--bind-address={NETWORK}.1"),
            format!("--advertise-address={NETWORK}.1"),
            "--secure-port=6443".to_owned(),
            "--cert-dir=/run/certificates".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={public}"),
            format!("--service-account-signing-key-file={private}"),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            format!("--token-auth-file={token_file}"),
            "--authorization-mode=RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            // The names of nodes can't be resolved.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ];
        arguments.extend(self.api_server_arguments.iter().cloned());
        self.start("kube-apiserver", &arguments);
    }

    /// Waits until the API server is ready, and has made its own objects.
    pub(super) fn wait_until_ready(&self) {
        let needed = ["/readyz", "/api/v1/namespaces/kube-system"];
        let is_ready = || needed.iter().all(|path| self.get(path).is_some());
        let log = || fs::read_to_string(self.path("kube-apiserver.log")).unwrap_or_default();
        wait_or_say(is_ready, log);
    }

    /// The certificates of the authorities that have signed the API server's. Without a certificate
    /// of the caller, the API server has made one.
    pub(super) fn ca(&self) -> PathBuf {
        let own = || {
            format!(
                "/proc/{}/root/run/certificates/apiserver.crt",
                self.node.holder()
            )
        };
        self.ca.clone().unwrap_or_else(|| own().into())
    }

    /// Starts the controllers and the scheduler.
    pub(super) fn start_controllers(&mut self) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig().display());
        let key = format!("--service-account-private-key-file={}", self.path("sa.key"));
        let options = ["--leader-elect=false", "--secure-port=0"];
        let controllers = [
            kubeconfig.clone(),
            key,
            options[0].to_owned(),
            options[1].to_owned(),
            // The certificate that pods trust. The API server has created it.
            "--root-ca-file=/run/certificates/apiserver.crt".to_owned(),
            // After a node is reported as lost, its pods are evicted after `tolerationSeconds`.
            "--node-monitor-grace-period=12s".to_owned(),
            "--node-monitor-period=2s".to_owned(),
        ];
        self.start("kube-controller-manager", &controllers);
        let scheduler = [kubeconfig, options[0].to_owned(), options[1].to_owned()];
        self.start("kube-scheduler", &scheduler);
    }

    /// Kills a daemon, if it is running.
    pub(super) fn kill(&mut self, program: &str) {
        let found = self
            .daemons
            .iter()
            .position(|daemon| daemon.program() == program);
        if let Some(found) = found {
            self.daemons.swap_remove(found).kill(&self.node);
        }
    }

    /// Sends a daemon a signal, by its name.
    pub(super) fn signal(&self, program: &str, signal: &str) {
        let daemons = self.daemons.iter();
        for daemon in daemons.filter(|daemon| daemon.program() == program) {
            daemon.signal(&self.node, signal);
        }
    }

    /// Joins a node's network namespace to the bridge with `eth0`, and to a second bridge with
    /// `eth1`, which has no address.
    pub(super) fn join(&self, name: &str, number: usize, node: &Node) {
        self.part(number);
        let holder = node.holder();
        for (link, interface, bridge) in [("node", "eth0", "nodes"), ("second", "eth1", "second")] {
            let link = format!("{link}{number}");
            self.ip(&format!(
                "link add {link} type veth peer name {interface} netns {holder}"
            ));
            self.ip(&format!("link set {link} master {bridge} up"));
        }
        let address = Self::address(number);
        node.sh(&format!(
            "hostname {name}
             ip addr add {address}/24 dev eth0
             ip link set eth0 up
             ip link set eth1 up
             ip route add default via {NETWORK}.1"
        ));
    }

    /// Removes a node's links, if there are any.
    pub(super) fn part(&self, number: usize) {
        for link in ["node", "second"] {
            let _ = self.node.succeeds(&format!("ip link del {link}{number}"));
        }
    }

    /// Runs `ip` in the network namespace, with the process IDs of the test.
    #[track_caller]
    fn ip(&self, words: &str) {
        let network = format!("--net=/proc/{}/ns/net", self.node.holder());
        let mut ip = Command::new("nsenter");
        ip.args([&network, "ip"]).args(words.split(' '));
        let output = ip.output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
    }

    /// The address of a node.
    pub(super) fn address(number: usize) -> String {
        format!("{NETWORK}.{}", 11 + number)
    }

    /// The namespaces of the control plane.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The administrator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write_files(&self) {
        let peers = format!("http://{NETWORK}.1:2380");
        let etcd = format!(
            "name: etcd
data-dir: /run/etcd
listen-client-urls: {ETCD}
advertise-client-urls: {ETCD}
listen-peer-urls: {peers}
initial-advertise-peer-urls: {peers}
initial-cluster: etcd={peers}
unsafe-no-fsync: true
log-level: error
"
        );
        self.node
            .sh(&format!("cat > /run/etcd.yaml <<'end'\n{etcd}end"));
        let tokens = format!("{ADMINISTRATOR},administrator,1,system:masters\n");
        fs::write(self.folder.join("tokens"), tokens).unwrap();
        let kubeconfig = format!(
            "apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: \"https://{NETWORK}.1:6443\", insecure-skip-tls-verify: true}}}}]
users: [{{name: administrator, user: {{token: {ADMINISTRATOR}}}}}]
contexts: [{{name: test, context: {{cluster: test, user: administrator}}}}]
current-context: test
"
        );
        fs::write(self.kubeconfig(), kubeconfig).unwrap();
        let key = self.path("sa.key");
        self.node.sh(&format!(
            "openssl genrsa -out {key} 2048; openssl rsa -in {key} -pubout -out {}",
            self.path("sa.pub")
        ));
    }

    fn start(&mut self, program: &'static str, arguments: &[String]) {
        let log = self.folder.join(format!("{program}.log"));
        let folder = kubernetes_programs().unwrap();
        let daemon = Daemon::start(&self.node, &folder, program, arguments, &log);
        self.daemons.push(daemon);
    }
}
