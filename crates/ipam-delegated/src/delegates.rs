//! How delegates are called.

use std::ffi::OsString;
use std::time::Duration;

use cni::{Answer, Command, DelegateName, Failure, Invocation};

use crate::executables::Executables;
use crate::interrupt::Interrupt;

/// A variable of a delegate's environment.
pub(crate) type Variable = (&'static str, OsString);

/// Delegates that can be called.
pub(crate) trait Delegates {
    /// Calls one, and returns what it answered.
    fn run(&mut self, name: &DelegateName, command: Command, stdin: &[u8]) -> Answer;

    /// Whether we have been told to stop.
    fn interrupted(&self) -> bool {
        false
    }

    /// From now on, nothing stops us: what has been done is being undone.
    fn undoing(&mut self) {}
}

/// Delegates in `CNI_PATH`.
pub(crate) struct Installed<'a, 'b> {
    pub(crate) executables: &'a Executables<'b>,
    /// What they get besides the environment that we have received.
    pub(crate) environment: Vec<Variable>,
    pub(crate) timeout: Option<Duration>,
    /// What SIGTERM and SIGINT end.
    pub(crate) interrupt: Option<&'a Interrupt>,
}

impl Delegates for Installed<'_, '_> {
    fn run(&mut self, name: &DelegateName, command: Command, stdin: &[u8]) -> Answer {
        if self.interrupted() {
            return Answer::Failed(Failure::Interrupted);
        }
        let executable = match self.executables.find(name) {
            Ok(executable) => executable,
            Err(failure) => return Answer::Failed(failure),
        };
        let invocation = Invocation {
            command,
            stdin,
            environment: &self.environment,
            timeout: self.timeout,
            interrupt: self.interrupt.map(|it| it as &dyn cni::Interrupt),
        };
        match cni::delegate(name, &executable, &invocation) {
            // Whatever it says: it was not let end.
            Answer::Failed(_) if self.interrupted() => Answer::Failed(Failure::Interrupted),
            answer => answer,
        }
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::came)
    }

    fn undoing(&mut self) {
        self.interrupt = None;
    }
}
