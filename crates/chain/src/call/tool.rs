//! Runs a program that is no plugin, such as `ip`.

use cni::Error;

use crate::call::outcome::{Failure, Outcome};
use crate::call::process::ProcessRun;

impl ProcessRun<'_> {
    /// Runs the program as a tool: its stderr is its error, and its stdout is ignored.
    ///
    /// # Errors
    ///
    /// It can't be run, it has failed, or it takes too long. The message has its name or the end
    /// of its stderr.
    pub(crate) fn as_tool(&self) -> Result<(), Error> {
        let not_started = |error| Failure::not_started(self.executable, &error).error;
        let mut output = self.to_its_end(&mut |_| {}).map_err(not_started)?;
        let said = output.stderr.trim().to_owned();
        // A tool's stdout is no CNI error.
        output.stdout.clear();
        match Outcome::from(output) {
            Outcome::Failed(failure) if said.is_empty() => Err(failure.error),
            Outcome::Failed(failure) => Err(Error::new(failure.error.code, said)),
            _ => Ok(()),
        }
    }
}
