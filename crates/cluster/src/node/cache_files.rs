//! Files of `cacheDir` that may be lost at any time. Their errors are only logged.

use std::time::{Duration, SystemTime};

use state_files::StateFolder;

use crate::Node;

/// Files with a common prefix in their names.
pub(crate) struct CacheFiles {
    folder: Option<StateFolder>,
    prefix: String,
}

impl CacheFiles {
    pub(crate) fn open(node: &Node, prefix: String) -> Self {
        Self {
            folder: StateFolder::create(&node.cache_dir).ok(),
            prefix,
        }
    }

    /// The content, and the time of the last change; `None` if the file can't be read.
    pub(crate) fn read(&self, name: &str) -> Option<(Vec<u8>, Option<SystemTime>)> {
        let name = format!("{}{name}", self.prefix);
        self.folder.as_ref()?.read_with_time(&name).ok()
    }

    /// Writes a file, unless another process is writing one of these files: skipping it does no
    /// harm.
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let Some(folder) = &self.folder else {
            return;
        };
        let name = format!("{}{name}", self.prefix);
        let written = folder.with_lock(Duration::ZERO, || folder.replace(&name, content));
        if let Err(error) = written {
            tracing::debug!(name, %error, "this file of cacheDir is not written");
        }
    }
}
