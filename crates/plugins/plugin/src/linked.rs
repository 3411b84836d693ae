//! A plugin that a chain in this process calls, with its log and its stderr.

use cni::{Cancellation, Environment, LinkedOutput, LinkedPlugin, Plugin};

use crate::log;
use crate::respond::respond;

/// A plugin that is linked into this process.
#[derive(Clone, Copy)]
pub struct Linked<'a>(pub &'a dyn Plugin);

impl LinkedPlugin for Linked<'_> {
    fn name(&self) -> &str {
        self.0.about().name
    }

    fn call(
        &self,
        environment: &Environment,
        stdin: &[u8],
        cancellation: Option<&dyn Cancellation>,
    ) -> LinkedOutput {
        let (output, stderr) = log::of_linked_plugin(self.name(), || {
            let mut stdin = || Ok(stdin.to_vec());
            respond(self.0, environment, &mut stdin, cancellation)
        });
        LinkedOutput {
            success: output.success,
            stdout: output.stdout,
            stderr,
        }
    }
}
