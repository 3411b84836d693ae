//! A plugin that a chain in this process calls, with its log and its stderr.

use cni::{Cancellation, Environment, LinkedOutput, LinkedPlugin, NetworkConfig, Plugin};

use crate::log;
use crate::respond::answer_chain;

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
        config: NetworkConfig,
        cancellation: Option<&dyn Cancellation>,
    ) -> LinkedOutput {
        let call = || answer_chain(self.0, environment, config, cancellation);
        let (answer, stderr) = log::of_linked_plugin(self.name(), call);
        LinkedOutput { answer, stderr }
    }
}
