//! The environment of a call: all of its variables, as values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variable of every process that belongs to a chain: the ID of the chain's call.
///
/// A plugin with this variable in its environment is a delegate.
pub const CHAIN_CALL: &str = "IPAM_DELEGATED_CALL";

/// The variables that a plugin is called with.
///
/// A library reads them here and never from its process, so that one process can serve
/// many calls.
///
/// ```
/// # use cni::Environment;
/// let environment = Environment::default().with("CNI_COMMAND", "ADD");
/// assert_eq!(environment.get("CNI_COMMAND"), Some("ADD".as_ref()));
/// assert_eq!(environment.get("CNI_ARGS"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The value of a variable; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable as text; empty if it is not set.
    pub fn text(&self, name: &str) -> String {
        let value = self.get(name).unwrap_or_default();
        value.to_string_lossy().into_owned()
    }

    /// The same environment with this variable set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (OsString, OsString)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}
