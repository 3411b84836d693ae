//! Cache of definitions that an earlier ADD has read, in files of `cacheDir`. The request that
//! looks for free addresses also reads the engine's definitions; if these differ, they replace the
//! files.

use super::asked::{AskedPools, Values};
use crate::Node;
use crate::node::cache_files::CacheFiles;

/// The files.
pub(crate) struct KnownDefinitions(CacheFiles);

impl KnownDefinitions {
    pub(crate) fn open(node: &Node) -> Self {
        let prefix = format!("pool{}_", node.prefix_in_names());
        Self(CacheFiles::open(node, prefix))
    }

    /// The definitions of all pools of an ADD; `None` if one isn't in the cache.
    pub(crate) fn read(&self, asked: &AskedPools) -> Option<Values> {
        let read = |name| self.0.read(name).map(|(value, _)| Some(value));
        asked.names().map(read).collect()
    }

    /// Writes the definitions that have changed.
    pub(crate) fn write(&self, asked: &AskedPools, values: &Values) {
        for (name, value) in asked.names().zip(values) {
            if let Some(value) = value
                && self.0.read(name).is_none_or(|(known, _)| known != *value)
            {
                self.0.write(name, value);
            }
        }
    }
}
