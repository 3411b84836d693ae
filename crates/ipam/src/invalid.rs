//! Why a value of the configuration can't be used.

use std::fmt;

/// What is wrong with a value, and which key it stands under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    path: String,
    reason: String,
}

impl Invalid {
    /// `reason` should say the value.
    pub(crate) fn new(key: &str, reason: impl Into<String>) -> Self {
        Self {
            path: key.to_owned(),
            reason: reason.into(),
        }
    }

    /// The same, with the key seen from further out: `ranges[0]` before `subnet`
    /// makes `ranges[0].subnet`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.path = match (outer.is_empty(), self.path.is_empty()) {
            (true, _) => self.path,
            (_, true) => outer.to_owned(),
            _ if self.path.starts_with('[') => format!("{outer}{}", self.path),
            _ => format!("{outer}.{}", self.path),
        };
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl std::error::Error for Invalid {}
