//! Processes that run beside a test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A process that is killed when this is dropped.
pub struct Background(Child);

impl Background {
    /// Starts a command without a stdin. What it prints is appended to a file.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::options().append(true).create(true).open(log).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap());
        Self(command.stderr(log).spawn().unwrap())
    }

    /// Starts a command, and waits until it prints `ready`.
    pub fn until_ready(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }

    /// True if it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end; true if it was successful.
    pub fn wait(mut self) -> bool {
        self.0.wait().unwrap().success()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
