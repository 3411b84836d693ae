//! A daemon in the namespaces of a node.

use std::path::Path;

use rustix::process::Signal;

use crate::{Background, Node};

/// A running daemon. It ends with its PID namespace.
pub(crate) struct Daemon {
    program: &'static str,
    process: Background,
}

impl Daemon {
    /// Starts a program from this folder; its output is appended to the log.
    pub(crate) fn start(
        node: &Node,
        folder: &Path,
        program: &'static str,
        arguments: &[String],
        log: &Path,
    ) -> Self {
        let script = format!("echo $$ > /run/{program}.pid; exec \"$@\"");
        let mut command = node.command("bash");
        command.args(["-c", &script, program]);
        command.arg(folder.join(program)).args(arguments);
        let process = Background::start(&mut command, log);
        Self { program, process }
    }

    /// The name of its program.
    pub(crate) fn program(&self) -> &'static str {
        self.program
    }

    /// Sends its process a signal, by its name.
    pub(crate) fn signal(&self, node: &Node, signal: &str) {
        // The daemon may have ended already.
        let program = self.program;
        node.succeeds(&format!("kill -{signal} $(cat /run/{program}.pid)"));
        if signal != "STOP" {
            // `nsenter` stops itself when its child is stopped.
            self.process.signal(Signal::CONT);
        }
    }

    /// True if it has ended without being killed.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Kills its process, and waits for its end.
    pub(crate) fn kill(self, node: &Node) {
        self.signal(node, "KILL");
        self.process.wait();
    }
}
