//! The definitions that an earlier ADD has read, in files of `cacheDir`. The request that
//! looks for free addresses reads the engine's, too: if these differ, they replace the files.

use std::time::Duration;

use state_files::StateFolder;

use super::asked::{AskedPools, Values};
use crate::Node;

/// The files.
pub(crate) struct KnownDefinitions {
    folder: Option<StateFolder>,
    prefix: String,
}

impl KnownDefinitions {
    pub(crate) fn open(node: &Node) -> Self {
        Self {
            folder: StateFolder::create(&node.cache_dir).ok(),
            prefix: format!("pool{}_", node.prefix_in_names()),
        }
    }

    /// The definitions of all pools of an ADD; `None` if one is unknown.
    pub(crate) fn read(&self, asked: &AskedPools) -> Option<Values> {
        let folder = self.folder.as_ref()?;
        let read = |name: &str| folder.read(&format!("{}{name}", self.prefix)).ok();
        let values: Values = asked.names().map(read).collect();
        values.iter().all(Option::is_some).then_some(values)
    }

    /// Writes those that have changed.
    pub(crate) fn write(&self, asked: &AskedPools, values: &Values) {
        let Some(folder) = &self.folder else {
            return;
        };
        for (name, value) in asked.names().zip(values) {
            let Some(value) = value else {
                continue;
            };
            let file = format!("{}{name}", self.prefix);
            if folder.read(&file).is_ok_and(|known| known == *value) {
                continue;
            }
            // Another process that writes has read the same.
            let written = folder.with_lock(Duration::ZERO, || folder.replace(&file, value));
            if let Err(error) = written {
                tracing::debug!(name, %error, "the definition is not written to cacheDir");
            }
        }
    }
}
