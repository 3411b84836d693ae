//! A plugin of this process as a chain calls it, with a log and a stderr of its own.

use cni::{
    Cancellation, Environment, LinkedAnswer, LinkedOutput, LinkedPart, LinkedPlugin, PartialPlugin,
    Plugin,
};

use crate::log;
use crate::respond::{Output, respond, respond_in_part};

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
        output_of(self.name(), || {
            let mut stdin = || Ok(stdin.to_vec());
            respond(self.0, environment, &mut stdin, cancellation)
        })
    }
}

/// The part of a plugin that is linked into this process.
#[derive(Clone, Copy)]
pub struct Part<'a>(pub &'a dyn PartialPlugin);

impl LinkedPart for Part<'_> {
    fn name(&self) -> &str {
        self.0.about().name
    }

    fn call<'a>(&'a self, environment: &'a Environment, stdin: &[u8]) -> Option<LinkedAnswer<'a>> {
        let answer = respond_in_part(self.0, environment, stdin)?;
        Some(Box::new(|| output_of(self.name(), answer)))
    }
}

/// The output of a call of this plugin, with what it has logged to stderr.
fn output_of(plugin: &str, call: impl FnOnce() -> Output) -> LinkedOutput {
    let (output, stderr) = log::of_linked_plugin(plugin, call);
    LinkedOutput {
        success: output.success,
        stdout: output.stdout,
        stderr,
    }
}
