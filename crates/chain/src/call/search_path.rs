//! `CNI_PATH`: finds the executable of a delegate.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cni::{DelegateName, Environment, Error, code};

use crate::call::outcome::{Failure, Kind};

/// `CNI_PATH`: the folders in which plugins are found.
#[derive(Clone, Debug)]
pub struct SearchPath {
    /// The value of the variable, for messages.
    value: OsString,
    folders: OsString,
}

impl SearchPath {
    /// Reads `CNI_PATH`. An empty entry doesn't count: to a shell it is the working
    /// directory, and no plugin runs from there by accident.
    ///
    /// # Errors
    ///
    /// Code 4 if it is missing or names no folder.
    pub fn from_environment(environment: &Environment) -> Result<Self, Error> {
        let value = environment.get("CNI_PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = env::split_paths(value)
            .filter(|folder| !folder.as_os_str().is_empty())
            // The library would expand a leading `~` to a home folder, as a shell does.
            .map(|folder| Path::new(".").join(folder))
            .collect();
        if folders.is_empty() {
            return Err(Error::environment(format!(
                "CNI_PATH {}: it must list the folders that hold the delegates",
                if value.is_empty() {
                    "missing from the environment".to_owned()
                } else {
                    format!("is {value:?}")
                }
            )));
        }
        Ok(Self {
            value: value.to_owned(),
            // Cannot fail: the entries come from a split at the same separator.
            folders: env::join_paths(folders).unwrap_or_default(),
        })
    }

    /// Finds the executable of this name: the first one.
    ///
    /// # Errors
    ///
    /// There is none, or none that is executable.
    pub fn find(&self, name: &DelegateName) -> Result<PathBuf, Failure> {
        which::which_in(name.as_str(), Some(&self.folders), ".").map_err(|_| {
            let value = self.value.to_string_lossy();
            let msg = format!("no such plugin in CNI_PATH ({value})");
            let mut failure = Failure::new(Kind::NotRun, code::DELEGATE_NOT_FOUND, msg);
            if let Some(file) = self.file_named(name.as_str().as_ref()) {
                let file = file.display();
                failure.error.details = format!("{file} exists, but is not executable");
            }
            failure
        })
    }

    /// A file of this name that is not executable.
    fn file_named(&self, name: &OsStr) -> Option<PathBuf> {
        env::split_paths(&self.folders)
            .map(|folder| folder.join(name))
            .find(|file| file.exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search_path(value: &str) -> Result<SearchPath, Error> {
        SearchPath::from_environment(&Environment::default().with("CNI_PATH", value))
    }

    #[test]
    fn a_search_path_without_folders_is_refused() {
        for value in ["", ":", "::"] {
            let error = search_path(value).unwrap_err();
            assert_eq!(error.code, cni::code::INVALID_ENVIRONMENT);
            assert!(error.msg.contains("CNI_PATH"), "{error}");
        }
    }

    #[test]
    fn empty_entries_are_not_the_working_directory() {
        // The tests run in the crate's folder, where Cargo.toml is.
        let path = search_path(":/nowhere:").unwrap();
        assert_eq!(path.file_named("Cargo.toml".as_ref()), None);
        let path = search_path("src/..").unwrap();
        assert!(path.file_named("Cargo.toml".as_ref()).is_some());
    }

    #[test]
    fn a_tilde_is_a_folders_name() {
        let environment = Environment::default().with("CNI_PATH", "~/bin::/opt/~");
        let path = SearchPath::from_environment(&environment).unwrap();
        assert_eq!(path.folders, "./~/bin:/opt/~");
    }
}
