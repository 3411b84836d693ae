//! The plugins of a chain: executables in `CNI_PATH`, and plugins that are linked into
//! the process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cni::{CHAIN_CALL, DelegateName, Environment, Error, LinkedPlugin, ROLLBACK};

use crate::call::outcome::Failure;
use crate::call::search_path::SearchPath;

/// Compares a path with the process's own executable.
type OwnExecutable<'a> = &'a (dyn Fn(&Path) -> Executable<'a> + Sync);

/// A path, compared with the process's own executable.
#[derive(Clone, Copy)]
pub enum Executable<'a> {
    /// Another file.
    Other,
    /// The executable, by the name of this plugin.
    Plugin(&'a dyn LinkedPlugin),
    /// The executable, by the name of the chain itself, or by an unknown one.
    Chain,
}

/// Finds the plugins of a chain.
pub struct Plugins<'a> {
    search_path: SearchPath,
    by_name: &'a [&'a dyn LinkedPlugin],
    own_executable: Option<OwnExecutable<'a>>,
    /// The plugins found so far: each is looked up once a call.
    found: RefCell<HashMap<DelegateName, Found<'a>>>,
}

/// A plugin that was found.
#[derive(Clone)]
pub(crate) enum Found<'a> {
    /// An executable.
    File(PathBuf),
    /// A linked plugin, with its executable if it has one.
    Linked(&'a dyn LinkedPlugin, Option<PathBuf>),
    /// The executable of the chain itself.
    Chain(PathBuf),
}

impl Found<'_> {
    /// Its executable; `None` for a plugin that is only linked.
    pub(crate) fn executable(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Chain(path) => Some(path),
            Self::Linked(_, path) => path.as_deref(),
        }
    }

    /// The same plugin, which is executed if it has an executable.
    pub(crate) fn executed(self) -> Self {
        match self {
            Self::Linked(_, Some(path)) => Self::File(path),
            other => other,
        }
    }
}

impl<'a> Plugins<'a> {
    /// The executables in `CNI_PATH`.
    ///
    /// # Errors
    ///
    /// Code 4 if `CNI_PATH` is missing or empty.
    pub fn in_cni_path(environment: &Environment) -> Result<Self, Error> {
        Ok(Self {
            search_path: SearchPath::from_environment(environment)?,
            by_name: &[],
            own_executable: None,
            found: RefCell::default(),
        })
    }

    /// The same plugins, and these, which take precedence over executables of their
    /// names.
    #[must_use]
    pub fn and_linked(mut self, plugins: &'a [&'a dyn LinkedPlugin]) -> Self {
        self.by_name = plugins;
        self
    }

    /// The same plugins. If an executable in `CNI_PATH` is this process's own, the plugin
    /// that `own` returns is called without executing it.
    #[must_use]
    pub fn and_own_executable(mut self, own: OwnExecutable<'a>) -> Self {
        self.own_executable = Some(own);
        self
    }

    /// Finds a plugin.
    ///
    /// # Errors
    ///
    /// There is no such plugin.
    pub(crate) fn find(&self, name: &DelegateName) -> Result<Found<'a>, Failure> {
        if let Some(found) = self.found.borrow().get(name) {
            return Ok(found.clone());
        }
        let found = self.look_up(name)?;
        self.found.borrow_mut().insert(name.clone(), found.clone());
        Ok(found)
    }

    fn look_up(&self, name: &DelegateName) -> Result<Found<'a>, Failure> {
        let linked = self
            .by_name
            .iter()
            .find(|plugin| plugin.name() == name.as_str());
        if let Some(plugin) = linked {
            return Ok(Found::Linked(*plugin, None));
        }
        let path = self.search_path.find(name)?;
        Ok(match self.own_executable.map(|own| own(&path)) {
            None | Some(Executable::Other) => Found::File(path),
            Some(Executable::Plugin(plugin)) => Found::Linked(plugin, Some(path)),
            Some(Executable::Chain) => Found::Chain(path),
        })
    }

    /// Refuses a call that comes from a chain's delegate, and a chain that lists its own
    /// executable, by whatever name. A missing delegate fails when it is to run.
    ///
    /// # Errors
    ///
    /// Code 7, naming the delegate.
    pub(crate) fn refuse_recursion(
        &self,
        delegates: &[DelegateName],
        environment: &Environment,
    ) -> Result<(), Error> {
        let is_set = |name: &&str| environment.get(name).is_some();
        if let Some(name) = [CHAIN_CALL, ROLLBACK].into_iter().find(is_set) {
            return Err(Error::config(format!(
                "ipam.delegates: a delegate has called ipam-delegated again ({name} is set); a chain can't be its own delegate",
            )));
        }
        for (i, name) in delegates.iter().enumerate() {
            if let Ok(Found::Chain(path)) = self.find(name) {
                return Err(Error::config(format!(
                    "ipam.delegates[{i}]: {:?} is ipam-delegated itself ({}); a chain can't be its own delegate",
                    name.as_str(),
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::LinkedExample;

    #[test]
    fn a_linked_plugin_takes_precedence_over_an_executable_of_its_name() {
        let environment = Environment::default().with("CNI_PATH", "/bin");
        let linked: [&dyn LinkedPlugin; 1] = [&LinkedExample::named("sh")];
        let plugins = Plugins::in_cni_path(&environment).unwrap();
        assert!(matches!(
            plugins.find(&"sh".parse().unwrap()),
            Ok(Found::File(_))
        ));
        let plugins = Plugins::in_cni_path(&environment)
            .unwrap()
            .and_linked(&linked);
        assert!(matches!(
            plugins.find(&"sh".parse().unwrap()),
            Ok(Found::Linked(_, None))
        ));
    }
}
