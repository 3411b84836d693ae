//! The plugins of a chain: executables in `CNI_PATH`, and plugins that are linked into
//! the process.

use std::path::{Path, PathBuf};

use cni::{DelegateName, Environment, Error, LinkedPlugin};

use crate::call::outcome::Failure;
use crate::call::search_path::SearchPath;
use crate::call::version_negotiation::CommonVersions;

/// The linked plugin that a path leads to, if it is the process's own executable by the name of this
/// plugin.
type OwnExecutable<'a> = &'a (dyn Fn(&Path) -> Option<&'a dyn LinkedPlugin> + Sync);

/// Finds the plugins of a chain.
pub struct Plugins<'a> {
    search_path: SearchPath,
    by_name: &'a [&'a dyn LinkedPlugin],
    own_executable: Option<OwnExecutable<'a>>,
    /// The versions of those that are too old for the network's.
    pub(crate) versions: CommonVersions,
}

/// A plugin that was found.
pub(crate) enum InstalledPlugin<'a> {
    /// Its file is executed.
    File(PathBuf),
    /// A linked plugin, with its executable if it has one.
    Linked(&'a dyn LinkedPlugin, Option<PathBuf>),
}

impl InstalledPlugin<'_> {
    /// Its executable; `None` for a plugin that is only linked.
    pub(crate) fn executable(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Linked(_, path) => path.as_deref(),
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
            versions: CommonVersions::default(),
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
    pub(crate) fn find(&self, name: &DelegateName) -> Result<InstalledPlugin<'a>, Failure> {
        let mut linked = self.by_name.iter();
        if let Some(plugin) = linked.find(|plugin| plugin.name() == name.as_str()) {
            return Ok(InstalledPlugin::Linked(*plugin, None));
        }
        let path = self.search_path.find(name)?;
        Ok(match self.own_executable.and_then(|own| own(&path)) {
            Some(plugin) => InstalledPlugin::Linked(plugin, Some(path)),
            None => InstalledPlugin::File(path),
        })
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
            Ok(InstalledPlugin::File(_))
        ));
        let plugins = Plugins::in_cni_path(&environment)
            .unwrap()
            .and_linked(&linked);
        assert!(matches!(
            plugins.find(&"sh".parse().unwrap()),
            Ok(InstalledPlugin::Linked(_, None))
        ));
    }
}
