//! Log files of the verbose flavour: `<plugin>.log.<date>`.

use std::fs;
use std::path::Path;

use crate::{Sandbox, names};

impl Sandbox {
    /// Names of a plugin's log files, the oldest first.
    pub fn log_files(&self, plugin: &str) -> Vec<String> {
        log_files(&self.log_dir(), plugin)
    }

    /// The whole log of a plugin; empty if it has none.
    pub fn log(&self, plugin: &str) -> String {
        log(&self.log_dir(), plugin)
    }
}

/// The contents of a plugin's log files in this folder, the oldest first.
pub fn log(folder: &Path, plugin: &str) -> String {
    let files = log_files(folder, plugin).into_iter();
    files
        .map(|name| fs::read_to_string(folder.join(name)).unwrap())
        .collect()
}

fn log_files(folder: &Path, plugin: &str) -> Vec<String> {
    if !folder.exists() {
        return Vec::new();
    }
    let prefix = format!("{plugin}.log.");
    let mut names = names(folder);
    names.retain(|name| name.starts_with(&prefix));
    names
}
