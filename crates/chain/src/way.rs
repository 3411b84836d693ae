//! How a delegate that was found is run: linked code is called, or a file is executed.

use std::path::Path;

use cni::{Environment, LinkedAnswer, LinkedPlugin};

use crate::plugins::Found;

/// How a delegate is run.
pub(crate) enum Way<'a> {
    /// A linked plugin is called.
    Call(&'a dyn LinkedPlugin),
    /// A linked part of the plugin has answered.
    Take(LinkedAnswer<'a>),
    /// A file is executed.
    Execute(&'a Path),
}

impl<'a> Way<'a> {
    /// The way of a delegate, with the path of its executable if it has one. With `is_called`,
    /// linked code is called instead of its executable.
    pub(crate) fn of(
        found: &'a Found<'_>,
        is_called: bool,
        environment: &'a Environment,
        stdin: &[u8],
    ) -> (Option<&'a Path>, Self) {
        match found {
            Found::Linked(plugin, None) => (None, Self::Call(*plugin)),
            Found::Linked(plugin, Some(path)) if is_called => (Some(path), Self::Call(*plugin)),
            Found::Part(part, path) if is_called => {
                let answer = part.call(environment, stdin);
                (Some(path), answer.map_or(Self::Execute(path), Self::Take))
            }
            Found::File(path)
            | Found::Chain(path)
            | Found::Linked(_, Some(path))
            | Found::Part(_, path) => (Some(path), Self::Execute(path)),
        }
    }
}
