//! The definitions that an earlier ADD has read, in files of `etcd.cacheDir`. The request that
//! looks for free addresses reads etcd's, too: if they are others, these are forgotten.

use std::time::Duration;

use cluster::Cluster;
use cluster_client::{Asked, Values};
use state_files::StateFolder;

/// The files.
pub(crate) struct KnownDefinitions {
    folder: Option<StateFolder>,
    prefix: String,
}

impl KnownDefinitions {
    pub(crate) fn open(cluster: &Cluster) -> Self {
        Self {
            folder: StateFolder::create(&cluster.settings.cache_dir).ok(),
            // Other clusters may have pools of the same name.
            prefix: format!("pool{}_", cluster.settings.prefix.replace('/', "_")),
        }
    }

    /// The values of all pools of an ADD that are known by their names; `None` if one is
    /// missing here.
    pub(crate) fn read(&self, asked: &Asked) -> Option<Values> {
        let folder = self.folder.as_ref()?;
        let read = |name: &str| folder.read(&format!("{}{name}", self.prefix)).ok();
        let values: Values = asked.names().map(read).collect();
        values.iter().all(Option::is_some).then_some(values)
    }

    /// Remembers them, if they are others than before.
    pub(crate) fn write(&self, asked: &Asked, values: &Values) {
        let Some(folder) = &self.folder else {
            return;
        };
        for (name, value) in asked.names().zip(values) {
            let Some(value) = value else {
                continue;
            };
            let file = format!("{}{name}", self.prefix);
            if folder.read(&file).is_ok_and(|it| it == *value) {
                continue;
            }
            // Another process that writes isn't waited for: it has read the same.
            let written = folder.with_lock(Duration::ZERO, || folder.replace(&file, value));
            if let Err(error) = written {
                tracing::debug!(name, %error, "the definition is not remembered");
            }
        }
    }
}
