//! Sandbox of one input: private folders, and the paths of a fuzzed configuration led into
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cni::Object;
use tempfile::TempDir;

/// Content of a folder: the paths of all files below it, each with its bytes.
pub type Snapshot = BTreeMap<PathBuf, Vec<u8>>;

/// Folders that are removed when this is dropped.
///
/// They lie some levels below the top, so that a path which leads out by a few
/// `..` ends where [`Self::assert_nothing_got_out`] looks.
pub struct Sandbox {
    top: TempDir,
}

impl Default for Sandbox {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// If it can't be made.
    fn default() -> Self {
        let top = tempfile::Builder::new()
            .prefix("ipam-delegated-fuzz-")
            .tempdir()
            .expect("a temporary folder");
        let sandbox = Self { top };
        fs::create_dir_all(sandbox.plugins()).expect("a folder in it");
        sandbox
    }
}

impl Sandbox {
    /// The folder that holds all others.
    pub fn root(&self) -> PathBuf {
        self.top.path().join("some/levels/below")
    }

    /// The folder for `CNI_PATH`.
    pub fn plugins(&self) -> PathBuf {
        self.root().join("plugins")
    }

    /// The folder for `dataDir`.
    pub fn data_dir(&self) -> PathBuf {
        self.root().join("data")
    }

    /// The folder for `stateDir`.
    pub fn state_dir(&self) -> PathBuf {
        self.root().join("state")
    }

    /// The folder for `poolsDir`.
    pub fn pools_dir(&self) -> PathBuf {
        self.root().join("pools")
    }

    /// The file for `resolvConf`.
    pub fn resolv_conf(&self) -> PathBuf {
        self.root().join("resolv.conf")
    }

    /// The configuration with its paths led into the sandbox, whatever they were:
    /// a fuzzed `dataDir` must not make a test write to the machine. It is read as
    /// the plugins read it; what they refuse as no configuration, or as no path,
    /// stays as it is.
    pub fn confine(&self, config: Vec<u8>) -> Vec<u8> {
        let Ok(mut object) = serde_json::from_str::<Object>(&String::from_utf8_lossy(&config))
        else {
            return config;
        };
        // Of several spellings, DEL and GC read the last one.
        let ipam = object
            .get("ipam")
            .map(|raw| serde_json::from_str(raw.get()));
        let Some(Ok(mut ipam)) = ipam else {
            return config;
        };
        let text = |ipam: &Object, key| match ipam.get(key) {
            None => Ok(None),
            Some(raw) => serde_json::from_str::<Option<String>>(raw.get()),
        };
        for (key, path) in [("dataDir", self.data_dir()), ("stateDir", self.state_dir())] {
            match text(&ipam, key) {
                Ok(None) => ipam.set(key, &path),
                Ok(Some(text)) => ipam.set(key, &led_into(&path, &text)),
                Err(_) => {}
            }
        }
        for (key, path) in [
            ("resolvConf", self.resolv_conf()),
            ("poolsDir", self.pools_dir()),
        ] {
            if let Ok(Some(text)) = text(&ipam, key) {
                ipam.set(key, &led_into(&path, &text));
            }
        }
        object.set("ipam", &ipam);
        serde_json::to_vec(&object).expect("an object is JSON")
    }

    /// Checks that there is nothing outside of the folders that are to be written to.
    ///
    /// # Panics
    ///
    /// If there is.
    pub fn assert_nothing_got_out(&self) {
        let within = [
            "plugins",
            "data",
            "state",
            "log-of-delegates",
            "resolv.conf",
        ];
        let mut folder = self.top.path().to_owned();
        for below in ["some", "levels", "below"] {
            assert_eq!(names(&folder), [below], "in {}", folder.display());
            folder.push(below);
        }
        for name in names(&folder) {
            assert!(
                within.iter().any(|start| name.starts_with(start)),
                "{name} is new"
            );
        }
    }

    /// The present content of a folder; empty if it isn't there.
    pub fn snapshot(folder: &Path) -> Snapshot {
        let mut all = Snapshot::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(sandbox) if sandbox.is_dir() => folders.push(path),
                    Ok(sandbox) if sandbox.is_file() => {
                        let content = fs::read(&path).unwrap_or_default();
                        all.insert(path, content);
                    }
                    _ => {}
                }
            }
        }
        all
    }
}

/// A path beside this one, as strange as the text is.
fn led_into(path: &Path, text: &str) -> String {
    let sandboxed = text.replace('/', "_");
    if text.is_empty() || text.starts_with("plain") {
        return path.display().to_string();
    }
    format!("{}-{sandboxed}", path.display())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
