//! The environment of a call: all of its variables, as values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// Variable of a chain's delegates: a plugin with it in its environment was called by a chain.
pub const DELEGATE: &str = "IPAM_DELEGATED_DELEGATE";

/// Variable of a DEL that undoes a failed ADD within the call of this ADD. Missing or empty in any
/// other call.
///
/// An allocator then releases only what `prevResult` names: another
/// reservation of the attachment is of an earlier ADD, which may be in use.
pub const ROLLBACK: &str = "IPAM_DELEGATED_ROLLBACK";

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
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The variables at first. Each delegate of a chain gets them with few others.
    base: Arc<BTreeMap<OsString, OsString>>,
    /// The variables that were set since, which take precedence.
    set: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// The value of a variable; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let name = OsStr::new(name);
        let value = self.set.get(name).or_else(|| self.base.get(name));
        value.map(OsString::as_os_str)
    }

    /// The value of a variable as text; empty if it is not set.
    pub fn text(&self, name: &str) -> String {
        let value = self.get(name).unwrap_or_default();
        value.to_string_lossy().into_owned()
    }

    /// The same environment with this variable set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), value.into());
        self
    }

    /// All variables, each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let is_kept = |(name, _): &(&OsString, &OsString)| !self.set.contains_key(*name);
        let kept = self.base.iter().filter(is_kept);
        kept.chain(&self.set)
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (OsString, OsString)>>(variables: T) -> Self {
        Self {
            base: Arc::new(variables.into_iter().collect()),
            set: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_set_replaces_an_inherited_one() {
        let base = [("A", "1"), ("B", "2")].map(|(name, value)| (name.into(), value.into()));
        let environment: Environment = base.into_iter().collect();
        let changed = environment.clone().with("B", "3").with("C", "4");
        assert_eq!(environment.get("B"), Some("2".as_ref()));
        assert_eq!(changed.get("B"), Some("3".as_ref()));
        let all: Vec<_> = changed.iter().collect();
        let expected = [("A", "1"), ("B", "3"), ("C", "4")];
        let expected = expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
        assert_eq!(all, expected);
    }
}
