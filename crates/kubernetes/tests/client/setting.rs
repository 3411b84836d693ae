//! Kubeconfigs and objects for the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use kubernetes::Settings;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with a kubeconfig.
pub(crate) struct Setting {
    pub(crate) folder: TempDir,
    pub(crate) settings: Settings,
}

impl Setting {
    /// A kubeconfig of this cluster and user, as JSON.
    pub(crate) fn new(cluster: &Value, user: &Value) -> Self {
        let kubeconfig = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        });
        Self::with(&kubeconfig.to_string())
    }

    /// A kubeconfig with this text.
    pub(crate) fn with(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, text).unwrap();
        fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o600)).unwrap();
        Self {
            settings: Settings {
                kubeconfig,
                timeout: Duration::from_secs(20),
                state_dir: folder.path().join("state"),
                cache_dir: folder.path().join("cache"),
            },
            folder,
        }
    }

    /// The same settings with a short time limit, for requests that can't succeed.
    pub(crate) fn impatient(mut self) -> Self {
        self.settings.timeout = Duration::from_millis(300);
        self
    }

    /// Writes a file beside the kubeconfig.
    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join(name), content).unwrap();
    }
}

/// A pool in an answer of the API server.
pub(crate) fn pool(name: &str, revision: u32) -> Value {
    json!({
        "apiVersion": "ipam-delegated.io/v1",
        "kind": "Pool",
        "metadata": {
            "name": name,
            "uid": format!("uid of {name}"),
            "resourceVersion": revision.to_string(),
            "labels": {"ipam-delegated.io/pool": name},
        },
        "spec": {"ranges": []},
    })
}
