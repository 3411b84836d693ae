//! A real dockerd with `docker-ipam-delegated`, on a test node.
//!
//! All of its files are in a sandbox or in private folders of the node, and all of its processes
//! end with the node.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::rootfs::{can_run, place_for_containers};
use crate::waiting::{PATIENCE, wait_for, wait_within};
use crate::{Background, Cgroup, Node, Sandbox, needs, skip};

/// The executables of Debian's `docker.io`.
pub const DOCKERD: &str = "/usr/sbin/dockerd";
const DOCKER: &str = "/usr/bin/docker";

/// The plugin's socket, in the folder where dockerd looks for it.
const SOCKET: &str = "/run/docker/plugins/ipam-delegated.sock";

/// Starts a program, after its process ID was written to a file.
const WITH_ID: &str = "echo $$ > \"$0\"; exec \"$@\"";

/// dockerd's firewall rules drop forwarded packets. If the kernel has `br_netfilter`, the firewall
/// of a new network namespace also sees the packets between containers on one bridge.
const BRIDGES_WITHOUT_FIREWALL: &str = "for i in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do
    if [ -e $i ]; then echo 0 > $i; fi
done";

/// dockerd and the daemon.
pub struct Dockerd {
    /// The node on which both run.
    pub node: Node,
    /// The daemon's executable, configuration and state; the logs of both.
    pub sandbox: Sandbox,
    /// Further options of dockerd.
    options: Vec<String>,
    /// The folder of another dockerd and its runtimes, instead of Debian's.
    programs: Option<PathBuf>,
    /// These processes end with the node.
    started: Vec<Background>,
    /// Removed after the other fields.
    cgroup: Cgroup,
}

impl Dockerd {
    /// Starts both, with these options of dockerd. Reports and returns `None` if dockerd can't run
    /// a container on this machine.
    pub fn start(options: &[&str]) -> Option<Self> {
        Self::start_of(options, None)
    }

    /// As [`Self::start`], with dockerd, containerd and runc from this folder.
    pub fn start_of(options: &[&str], programs: Option<PathBuf>) -> Option<Self> {
        needs!(DOCKERD);
        let (node, sandbox, cgroup) = place_for_containers()?;
        fs::create_dir_all(sandbox.conf_dir()).unwrap();
        let mut dockerd = Self {
            node,
            sandbox,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            programs,
            started: Vec::new(),
            cgroup,
        };
        dockerd.node.sh(BRIDGES_WITHOUT_FIREWALL);
        dockerd.start_containerd();
        dockerd.start_daemon();
        if let Err(said) = dockerd.try_start_dockerd() {
            skip(&format!("dockerd doesn't start here: {said}"));
            return None;
        }
        let folder = dockerd.sandbox.root().join("rootfs");
        let import = format!("tar -C {} -c . | {DOCKER} import - test", folder.display());
        dockerd.node.sh(&import);
        let probe = dockerd.docker(&["run", "--rm", "--network=none", "test", "/bin/true"]);
        can_run("dockerd", &probe).then_some(dockerd)
    }

    /// Starts containerd, which dockerd uses.
    pub fn start_containerd(&mut self) {
        let containerd = self.program("containerd");
        let line = [
            containerd.as_str(),
            "--address=/run/containerd-own.sock",
            "--root=/var/lib/containerd-own",
            "--state=/run/containerd-own",
        ];
        let log = self.sandbox.root().join("containerd-log");
        let line = line.map(str::to_owned);
        self.spawn("/run/containerd.pid", &line, &log);
        self.wait(|dockerd| dockerd.node.succeeds("[ -S /run/containerd-own.sock ]"));
    }

    /// Starts the daemon without further options, and waits for its socket.
    pub fn start_daemon(&mut self) {
        self.start_daemon_with(&[]);
    }

    /// Starts the daemon with further options.
    pub fn start_daemon_with(&mut self, options: &[&str]) {
        let mut line = self.sandbox.docker_daemon_arguments(SOCKET.as_ref());
        line.push("--log=debug".to_owned());
        line.extend(options.iter().map(|option| (*option).to_owned()));
        let log = self.sandbox.root().join("docker-log");
        self.spawn("/run/daemon.pid", &line, &log);
        self.wait(|dockerd| dockerd.node.succeeds(&format!("[ -S {SOCKET} ]")));
    }

    /// Restarts the daemon, which asks Docker at once, and releases what Docker doesn't have.
    pub fn sweep(&mut self) {
        let looks = |docker: &Self| {
            docker.logged("compared with Docker")
                + docker.logged("nothing that Docker may have lost")
        };
        self.kill_daemon();
        let before = looks(self);
        self.start_daemon_with(&["--unanswered-after=0s"]);
        // What the first look has found is released before the second one, or soon after.
        self.wait(|docker| looks(docker) > before + 1);
    }

    /// Starts dockerd.
    pub fn start_dockerd(&mut self) {
        self.try_start_dockerd().unwrap();
    }

    fn try_start_dockerd(&mut self) -> Result<(), String> {
        let dockerd = match &self.programs {
            None => DOCKERD.to_owned(),
            Some(_) => self.program("dockerd"),
        };
        let line = [
            dockerd.as_str(),
            "--data-root=/var/lib/docker",
            "--exec-root=/run/docker-exec",
            "--pidfile=/run/dockerd-own.pid",
            "--host=unix:///run/docker.sock",
            "--storage-driver=vfs",
            // As systemd starts it. If dockerd started containerd itself, it could not be
            // restarted here: the node's first process doesn't reap dead processes.
            "--containerd=/run/containerd-own.sock",
        ];
        let mut line: Vec<String> = line.map(str::to_owned).to_vec();
        line.push(format!("--host=unix://{}", self.socket().display()));
        line.push(format!("--cgroup-parent={}", self.cgroup.path()));
        line.extend(self.options.clone());
        let log = self.sandbox.root().join("dockerd-log");
        self.node.sh("rm -f /run/dockerd-own.pid");
        self.spawn("/run/dockerd.pid", &line, &log);
        let has_ended = || !self.node.succeeds("kill -0 $(cat /run/dockerd.pid)");
        let answers = || self.docker(&["version"]).status.success();
        wait_within(PATIENCE, || answers() || has_ended());
        if answers() {
            return Ok(());
        }
        let log = fs::read_to_string(log).unwrap_or_default();
        Err(log.lines().last().unwrap_or_default().to_owned())
    }

    fn program(&self, name: &str) -> String {
        let own = self.programs.as_ref().map(|folder| folder.join(name));
        own.map_or_else(|| name.to_owned(), |path| path.display().to_string())
    }

    fn spawn(&mut self, id_file: &str, line: &[String], log: &Path) {
        let mut command = self.node.command("sh");
        if let Some(programs) = &self.programs {
            let debian = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{debian}", programs.display()));
        }
        command.args(["-c", WITH_ID, id_file]).args(line);
        command.env("HOME", self.sandbox.root());
        // For a client with an older API version than dockerd.
        command.env("DOCKER_MIN_API_VERSION", "1.24");
        self.started.push(Background::start(&mut command, log));
        self.wait(|dockerd| dockerd.node.succeeds(&format!("[ -s {id_file} ]")));
    }

    /// The paths of dockerd's calls, from the daemon's log.
    pub fn called(&self) -> BTreeSet<String> {
        let log = fs::read_to_string(self.sandbox.root().join("docker-log")).unwrap();
        let path = |line: &str| {
            let (_, rest) = line.split_once("call.path=\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        log.lines().filter_map(path).collect()
    }

    /// How often the daemon's log has this text.
    pub fn logged(&self, text: &str) -> usize {
        let log = fs::read_to_string(self.sandbox.root().join("docker-log"));
        log.unwrap_or_default().matches(text).count()
    }

    /// Kills the daemon, with SIGKILL.
    pub fn kill_daemon(&self) {
        self.kill("/run/daemon.pid");
    }

    /// Kills dockerd, with SIGKILL.
    pub fn kill_dockerd(&self) {
        self.kill("/run/dockerd.pid");
    }

    fn kill(&self, id_file: &str) {
        let script = format!(
            "id=$(cat {id_file}); kill -9 $id; while kill -0 $id 2>/dev/null; do sleep 0.01; done; rm {id_file}"
        );
        self.node.sh(&script);
    }

    /// Kills all processes on the node, and removes what a reboot removes.
    pub fn crash(&self) {
        // The first process of the node can't be killed from inside.
        self.node.succeeds("kill -9 -1");
        self.node.sh(
            "sleep 0.2; for i in $(grep -o ' /run/[^ ]*' /proc/mounts | sort -r); do umount -l $i 2>/dev/null || true; done
            rm -rf /run/netns/* /run/docker* /run/*.pid /run/*.sock /run/containerd*
            for i in $(ip -o link | sed 's/^[0-9]*: //; s/[:@].*//'); do [ $i = lo ] || ip link del $i 2>/dev/null || true; done",
        );
    }

    /// The parent of the containers' control groups.
    pub fn cgroup_path(&self) -> String {
        self.cgroup.path()
    }

    /// Waits until `what` is true.
    #[track_caller]
    pub fn wait(&self, what: impl Fn(&Self) -> bool) {
        wait_for(|| what(self));
    }

    /// dockerd's socket, in a folder that is not private to the node.
    pub fn socket(&self) -> PathBuf {
        self.sandbox.docker_api()
    }

    /// A command of docker.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.node.command(DOCKER);
        command
            .args(["--host", "unix:///run/docker.sock"])
            .args(arguments)
            .env("HOME", self.sandbox.root())
            .env_remove("DOCKER_HOST");
        command
    }

    /// Runs a command of docker.
    pub fn docker(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The stdout of a docker command, without the last line feed.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments);
        let log = || fs::read_to_string(self.sandbox.root().join("docker-log")).unwrap_or_default();
        assert!(
            output.status.success(),
            "docker {arguments:?}: {output:?}\n{}",
            log()
        );
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// The message of a docker command that fails.
    #[track_caller]
    pub fn err(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments);
        assert!(!output.status.success(), "docker {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    }

    /// The stdout of a docker command, by its words.
    #[track_caller]
    pub fn says(&self, words: &str) -> String {
        self.ok(&words.split(' ').collect::<Vec<_>>())
    }

    /// The message of a docker command that fails, by its words.
    #[track_caller]
    pub fn refuses(&self, words: &str) -> String {
        self.err(&words.split(' ').collect::<Vec<_>>())
    }

    /// Pings an address from a container.
    #[track_caller]
    pub fn ping(&self, container: &str, ip: &str) {
        self.says(&format!("exec {container} /bin/ping -c1 -W5 {ip}"));
    }

    /// Runs `ipamctl` on the node.
    pub fn ipamctl(&self, words: &[&str]) -> Output {
        let line = self.sandbox.ipamctl_line();
        let mut command = self.node.command(line[0].to_str().unwrap());
        command.args(&line[1..]).args(words).output().unwrap()
    }

    /// Removes all containers and networks, and restarts the daemon: one that was started by
    /// [`Dockerd::sweep`] would take a starting container's endpoint for lost.
    pub fn clear(&mut self) {
        for container in self.says("ps --all --quiet").lines() {
            self.says(&format!("rm --force {container}"));
        }
        self.says("network prune --force");
        self.kill_daemon();
        self.start_daemon();
    }

    /// Removes dockerd's network database while dockerd is killed, like the loss of a disk.
    pub fn lose_networks(&self) {
        self.node.sh("rm -r /var/lib/docker/network");
    }

    /// Starts a container that sleeps, on a network, with these options.
    #[track_caller]
    pub fn run(&self, network: &str, name: &str, options: &[&str]) {
        let head = [
            "run",
            "--detach",
            "--stop-timeout=0",
            "--network",
            network,
            "--name",
            name,
        ];
        self.ok(&[&head, options, &["test", "/bin/sleep", "1000"]].concat());
    }

    /// The IPv4 address of a container on a network, as Docker shows it.
    #[track_caller]
    pub fn address(&self, network: &str, name: &str) -> String {
        let format = format!("{{{{(index .NetworkSettings.Networks {network:?}).IPAddress}}}}");
        self.ok(&["inspect", "--format", &format, name])
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // Kills the remaining processes: they could remove their own files.
        let _ = self.node.succeeds("kill -9 -1");
        self.started.clear();
    }
}
