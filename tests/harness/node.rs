//! Test node: a network and a mount namespace with private, empty `/run`, `/var/lib` and
//! `/var/log`. It ends with the test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::Cgroup;

/// The namespaces. A waiting process keeps them open.
pub struct Node {
    holder: Child,
    /// Further namespaces besides mount and network: `pid`, `uts`.
    more: &'static [&'static str],
}

const PID: &str = "pid";

/// Script of the waiting process: it creates the private folders and waits for the end of stdin,
/// which comes when the test ends, even if the test is killed.
const HOLD: &str = "set -e
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mount -t tmpfs none /var/log
mkdir /run/netns
ip link set lo up
echo ready
read -r _ || true";

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Node {
    /// Creates a node. Requires root.
    pub fn new() -> Self {
        Self::try_new().unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// Creates a node. Requires root, and permission to create namespaces.
    ///
    /// # Errors
    ///
    /// A tool is missing, or the machine doesn't allow namespaces or mounts. The text names the
    /// tool, or has its message.
    pub fn try_new() -> Result<Self, String> {
        Self::holding(&[], None, HOLD)
    }

    /// Creates a node with a separate PID namespace, for daemons and containers: all of its
    /// processes end with it.
    pub fn with_own_processes() -> Result<Self, String> {
        Self::holding(&["pid"], None, HOLD)
    }

    /// Creates a node with further namespaces: `pid`, `uts`, and `cgroup` with the control group
    /// as its root. The shell script creates the private folders, prints `ready`, and waits for
    /// the end of stdin.
    pub(crate) fn holding(
        more: &'static [&'static str],
        cgroup: Option<&Cgroup>,
        script: &str,
    ) -> Result<Self, String> {
        let join = cgroup.map(Cgroup::join_script).unwrap_or_default();
        let mut unshare = Command::new("bash");
        unshare.args(["-ec", &format!("{join}\nexec unshare \"$@\""), "unshare"]);
        unshare.args(["--mount", "--net", "--propagation", "private"]);
        for namespace in more {
            unshare.arg(format!("--{namespace}"));
        }
        if more.contains(&PID) {
            unshare.args(["--fork", "--kill-child", "--mount-proc"]);
        }
        let mut holder = unshare
            // The first process of a PID namespace becomes the parent of orphans; bash reaps them.
            .args(["bash", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("unshare (Debian: util-linux) can't be run: {e}"))?;
        let mut line = String::new();
        let stdout = holder.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        if line == "ready\n" {
            // An unread pipe could block the process.
            drop(holder.stderr.take());
            return Ok(Self { holder, more });
        }
        let said = holder.wait_with_output().unwrap().stderr;
        let said = String::from_utf8_lossy(&said);
        Err(format!("namespaces can't be made: {}", said.trim()))
    }

    /// The process that holds the namespaces.
    #[cfg(feature = "tls")]
    pub(crate) fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// The command line that runs its arguments on the node.
    pub(crate) fn entrance(&self) -> Vec<String> {
        let holder = self.holder.id();
        let mut words = vec!["nsenter".to_owned(), format!("--target={holder}")];
        words.extend(["--mount", "--net"].map(str::to_owned));
        words.extend(self.more.iter().map(|namespace| match *namespace {
            // The process that created the PID namespace is not in it itself.
            PID => format!("--pid=/proc/{holder}/ns/pid_for_children"),
            _ => format!("--{namespace}"),
        }));
        words.push("--".to_owned());
        words
    }

    /// A command that will run on the node.
    pub fn command(&self, program: &str) -> Command {
        let entrance = self.entrance();
        let mut command = Command::new(&entrance[0]);
        command.args(&entrance[1..]).arg(program);
        command
    }

    /// Runs a shell script on the node; returns its stdout.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}\n{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a shell script on the node; true if it succeeds.
    pub fn succeeds(&self, script: &str) -> bool {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        output.status.success()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
