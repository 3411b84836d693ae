//! A daemon of a control plane, in its namespaces.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Node;
use crate::kubernetes_programs;

/// A running daemon. It ends with its PID namespace.
pub(super) struct Daemon {
    program: &'static str,
    process: Child,
}

impl Daemon {
    /// Starts a program; its output is appended to the log.
    pub(super) fn start(
        node: &Node,
        program: &'static str,
        arguments: &[String],
        log: &Path,
    ) -> Self {
        let log = File::options().append(true).create(true).open(log).unwrap();
        let script = format!("echo $$ > /run/{program}.pid; exec \"$@\"");
        let process = node
            .command("bash")
            .args(["-c", &script, program])
            .arg(kubernetes_programs().unwrap().join(program))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { program, process }
    }

    /// The name of its program.
    pub(super) fn program(&self) -> &'static str {
        self.program
    }

    /// Sends its process a signal, by its name.
    pub(super) fn signal(&self, node: &Node, signal: &str) {
        // The daemon may have ended already.
        let program = self.program;
        node.succeeds(&format!("kill -{signal} $(cat /run/{program}.pid)"));
        if signal != "STOP" {
            // `nsenter` stops itself when its child is stopped.
            let _ = kill_process(Pid::from_child(&self.process), Signal::CONT);
        }
    }

    /// Kills its process, and waits for its end.
    pub(super) fn kill(mut self, node: &Node) {
        self.signal(node, "KILL");
        self.process.wait().unwrap();
    }
}
