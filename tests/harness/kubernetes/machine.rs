//! A node of a Kubernetes cluster: namespaces with a container runtime and a kubelet, folders that
//! survive a loss of power, and a boot ID.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::NODES;
use super::control_plane::ControlPlane;
use super::runtime::ContainerRuntime;
use crate::failure_report::last_lines;
use crate::kubernetes_programs;
use crate::waiting::wait_or_say;
use crate::{Background, Cgroup, Node};

/// Mounts the control groups again, so that the node's are at the top. In version 2, only control
/// groups without processes can have children.
const CGROUP_MOUNTS: &str = r#"
while read -r _ _ _ _ folder _ more; do
    options=${more##* }
    umount "$folder"
    mount -t cgroup -o "${options#rw,}" none "$folder"
done <<< "$(grep -e ' - cgroup ' /proc/self/mountinfo)"
while read -r _ _ _ _ folder _; do
    umount "$folder"
    mount -t cgroup2 none "$folder"
    if [ -s "$folder/cgroup.controllers" ]; then
        mkdir "$folder/init"
        while read -r process; do echo "$process" > "$folder/init/cgroup.procs"; done < "$folder/cgroup.procs"
        for one in $(cat "$folder/cgroup.controllers"); do echo "+$one" > "$folder/cgroup.subtree_control"; done
    fi
done <<< "$(grep -e ' - cgroup2 ' /proc/self/mountinfo)"
"#;

/// A node of a cluster.
pub struct KubernetesNode {
    number: usize,
    runtime: ContainerRuntime,
    /// Its folders that survive a loss of power.
    disk: PathBuf,
    kubeconfig: PathBuf,
    node: Option<Node>,
    daemons: Vec<Background>,
    boots: u32,
    cgroup: Cgroup,
}

impl KubernetesNode {
    /// Creates a node without its daemons, joined to the network of the cluster.
    pub(super) fn new(
        number: usize,
        runtime: ContainerRuntime,
        root: &Path,
        control_plane: &ControlPlane,
    ) -> Result<Self, String> {
        let cluster = root.file_name().unwrap().to_str().unwrap();
        let mut machine = Self {
            number,
            runtime,
            disk: root.join(NODES[number]),
            kubeconfig: control_plane.kubeconfig(),
            node: None,
            daemons: Vec::new(),
            boots: 0,
            cgroup: Cgroup::named(&format!("{cluster}-{number}")),
        };
        let plugins = ["bridge", "host-local", "loopback", "macvlan", "portmap"];
        make_disk(&machine.disk, runtime, &plugins);
        let kubelet = kubelet_configuration(runtime);
        fs::write(machine.disk.join("etc/kubelet.yaml"), kubelet).unwrap();
        machine.boot(control_plane)?;
        Ok(machine)
    }

    /// Creates the namespaces.
    pub(super) fn boot(&mut self, control_plane: &ControlPlane) -> Result<(), String> {
        assert!(self.node.is_none(), "{} is running", self.name());
        self.boots += 1;
        // The first boot has the machine's boot ID, so containers see the same ID.
        let machine = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let boot_id = match self.boots {
            1 => machine,
            later => format!("{later:08}{}", &machine[8..]),
        };
        fs::write(self.disk.join("boot_id"), boot_id).unwrap();
        let disk = &self.disk;
        let more = format!(
            "mount --bind {}/boot_id /proc/sys/kernel/random/boot_id
echo 1 > /proc/sys/net/ipv4/ip_forward",
            disk.display()
        );
        let node = boot(disk, &self.cgroup, &more)?;
        control_plane.join(self.name(), self.number, &node);
        self.node = Some(node);
        Ok(())
    }

    /// Ends all of its processes, and removes its memory and its network.
    pub(super) fn cut_power(&mut self, control_plane: &ControlPlane) {
        drop(self.node.take());
        self.daemons.clear();
        self.cgroup.remove();
        control_plane.part(self.number);
    }

    /// Its host name, and the name of its `Node`.
    pub fn name(&self) -> &'static str {
        NODES[self.number]
    }

    /// Its address in the network of the nodes.
    pub fn address(&self) -> String {
        ControlPlane::address(self.number)
    }

    /// The path of a node's folder, such as `/etc/cni/net.d`, in the test's mount namespace.
    pub fn path(&self, path: &str) -> PathBuf {
        let on_disk = ["/etc/", "/opt/", "/var/lib/", "/var/log/"];
        assert!(
            on_disk.iter().any(|folder| path.starts_with(folder)),
            "{path}"
        );
        self.disk.join(&path[1..])
    }

    fn node(&self) -> &Node {
        let off = || panic!("{} is off", self.name());
        self.node.as_ref().unwrap_or_else(off)
    }

    /// Runs a shell script on the node; returns its stdout.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let output = self.try_sh(script);
        assert!(output.status.success(), "{script}\n{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a shell script on the node, which may fail.
    pub fn try_sh(&self, script: &str) -> Output {
        let mut command = self.node().command("bash");
        command
            .args(["-ec", script])
            .env("PATH", self.runtime.path());
        command.output().unwrap()
    }

    /// True if a shell script succeeds on the node.
    pub fn succeeds(&self, script: &str) -> bool {
        self.try_sh(script).status.success()
    }

    /// Starts the container runtime, and waits until it answers.
    pub fn start_runtime(&mut self) {
        self.start("runtime", &self.runtime.command_line());
        let answers = format!("test -S {}", self.runtime.socket());
        wait_or_say(
            || self.succeeds(&answers) && self.succeeds(&self.crictl("version")),
            || self.log_tails(),
        );
    }

    /// Starts the kubelet.
    pub fn start_kubelet(&mut self) {
        let kubelet = kubernetes_programs().unwrap().join("kubelet");
        let command_line = format!(
            "{} --config=/etc/kubelet.yaml --kubeconfig={} --hostname-override={} --node-ip={}",
            kubelet.display(),
            self.kubeconfig.display(),
            self.name(),
            self.address()
        );
        self.start("kubelet", &command_line);
    }

    /// Kills `runtime` or `kubelet` with SIGKILL.
    #[track_caller]
    pub fn kill(&self, daemon: &str) {
        self.sh(&format!("kill -KILL $(cat /run/{daemon}.pid)"));
    }

    fn start(&mut self, name: &str, command_line: &str) {
        let log = self.disk.join("logs").join(name);
        let daemon = start_daemon(self.node(), self.runtime, name, command_line, &log);
        self.daemons.push(daemon);
    }

    /// A crictl command for the node's shell.
    pub fn crictl(&self, words: &str) -> String {
        let crictl = kubernetes_programs().unwrap().join("crictl");
        let socket = self.runtime.socket();
        format!(
            "{} --runtime-endpoint=unix://{socket} {words}",
            crictl.display()
        )
    }

    /// The IDs of its ready pod sandboxes, sorted.
    #[track_caller]
    pub fn sandboxes(&self) -> Vec<String> {
        let listed = self.sh(&self.crictl("pods --quiet --no-trunc --state=ready"));
        let mut all: Vec<String> = listed.lines().map(str::to_owned).collect();
        all.sort();
        all
    }

    /// Removes stopped pod sandboxes, as the kubelet does within one to two minutes. It may do so
    /// meanwhile.
    #[track_caller]
    pub fn remove_stopped_sandboxes(&self) {
        let stopped = self.crictl("pods --quiet --state=notready");
        let remove = self.crictl("rmp");
        self.sh(&format!(
            "{stopped} | xargs --no-run-if-empty {remove} || true"
        ));
    }

    /// Loads an image from an archive, with the command of `docs/kubernetes.md`.
    #[track_caller]
    pub fn load(&self, archive: &Path) {
        self.sh(&self.runtime.load(archive));
    }

    /// The ends of the daemons' logs.
    pub fn log_tails(&self) -> String {
        let mut tails = String::new();
        for daemon in ["runtime", "kubelet"] {
            let log = self.disk.join("logs").join(daemon);
            tails += &format!("== {} {daemon}\n{}\n", self.name(), last_lines(&log));
        }
        tails
    }
}

/// Creates the folders of a new machine, with these reference plugins.
pub(super) fn make_disk(disk: &Path, runtime: ContainerRuntime, plugins: &[&str]) {
    for folder in [
        "etc",
        "opt/cni/bin",
        "var/lib/cni",
        "var/lib/kubelet",
        "var/log/pods",
        "logs",
    ] {
        fs::create_dir_all(disk.join(folder)).unwrap();
    }
    let here = Node::try_new().unwrap();
    here.sh(&format!(
        "cp -a /etc/. {disk}/etc
         rm -rf {disk}/etc/cni {disk}/etc/crio {disk}/etc/containers/storage.conf
         mkdir -p {disk}/etc/cni/net.d",
        disk = disk.display()
    ));
    for plugin in plugins {
        let source = runtime.network_plugins().join(plugin);
        fs::copy(source, disk.join("opt/cni/bin").join(plugin)).unwrap();
    }
    runtime.configure(disk);
}

/// Creates the namespaces of a machine with this disk, and runs more of a script in them.
pub(super) fn boot(disk: &Path, cgroup: &Cgroup, more: &str) -> Result<Node, String> {
    let script = format!(
        "set -e
mount -t tmpfs none /run
mkdir -p /run/netns /run/lock
for folder in etc opt var/lib var/log; do mount --bind {disk}/$folder /$folder; done
{CGROUP_MOUNTS}
ip link set lo up
{more}
mount --make-rshared /
echo ready
read -r _ || true",
        disk = disk.display()
    );
    Node::holding(&["pid", "uts", "cgroup"], Some(cgroup), &script)
}

/// Starts a daemon in a control group without processes of the node itself.
pub(super) fn start_daemon(
    node: &Node,
    runtime: ContainerRuntime,
    name: &str,
    command_line: &str,
    log: &Path,
) -> Background {
    let script = format!(
        "for top in {{/sys/fs/cgroup,/sys/fs/cgroup/*}}{{,/init}}; do
    if [ -e $top/cgroup.procs ]; then echo $$ > $top/cgroup.procs || true; fi
done
echo $$ > /run/{name}.pid; exec {command_line}"
    );
    let mut command = node.command("bash");
    command.args(["-c", &script]).env("PATH", runtime.path());
    Background::start(&mut command, log)
}

/// The kubelet's configuration.
fn kubelet_configuration(runtime: ContainerRuntime) -> String {
    let (socket, dns) = (runtime.socket(), ControlPlane::HOST);
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{socket}
clusterDNS: [{dns}]
clusterDomain: cluster.local
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
evictionHard: {{}}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 4s
nodeLeaseDurationSeconds: 12
syncFrequency: 2s
configMapAndSecretChangeDetectionStrategy: Watch
maxPods: 110
kubeAPIQPS: 200
kubeAPIBurst: 400
"
    )
}
