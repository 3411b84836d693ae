//! Context of a command: the folders of the command line, the environment, the output.

use cni::Environment;

use crate::arguments::Places;
use crate::node::Node;
use crate::output::Output;

/// Context of a command.
pub(crate) struct Context<'a> {
    pub(crate) places: &'a Places,
    pub(crate) environment: &'a Environment,
    pub(crate) output: Output,
}

impl Context<'_> {
    /// Reads this machine's conflists, and names on stderr those that can't be used.
    pub(crate) fn node(&self) -> Node {
        Node::read(self.places, self.environment)
    }
}
