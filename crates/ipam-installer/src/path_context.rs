use std::path::Path;

use anyhow::{Context, Result};

/// Errors that name their path.
pub(crate) trait PathContext<T> {
    /// The value, or the error behind this path.
    fn at(self, path: &Path) -> Result<T>;
}

impl<T, E> PathContext<T> for Result<T, E>
where
    Self: Context<T, E>,
{
    fn at(self, path: &Path) -> Result<T> {
        self.with_context(|| path.display().to_string())
    }
}
