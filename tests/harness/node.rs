//! A node of the test's own: a network and a mount namespace in which `/run`,
//! `/var/lib` and `/var/log` are empty and private. It is gone when the
//! test is.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A pair of namespaces, held by a process that waits.
pub struct Node {
    holder: Child,
}

/// What the holder runs: private folders, then wait for the end of stdin, which
/// comes with the test's own, however that ends.
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
    /// Makes the node. Only root can.
    ///
    /// # Panics
    ///
    /// Where it can't be made.
    pub fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "--propagation",
                "private",
                "sh",
                "-c",
                HOLD,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare, of Debian's util-linux");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n", "the node's namespaces could not be set up");
        Self { holder }
    }

    /// What a program has to be run through to run on the node.
    pub(crate) fn entrance(&self) -> Vec<String> {
        let target = format!("--target={}", self.holder.id());
        let words = ["nsenter", &target, "--mount", "--net", "--"];
        words.map(str::to_owned).to_vec()
    }

    /// A command that will run on the node.
    pub fn command(&self, program: &str) -> Command {
        let entrance = self.entrance();
        let mut command = Command::new(&entrance[0]);
        command.args(&entrance[1..]).arg(program);
        command
    }

    /// Runs a line of shell on the node; returns its stdout.
    ///
    /// # Panics
    ///
    /// Where it fails.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}\n{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether a line of shell succeeds on the node.
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
