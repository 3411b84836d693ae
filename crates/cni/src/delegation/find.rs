//! Which executable a delegate's name leads to.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::Failure;
use crate::{Environment, Error};

/// The name of a plugin's executable: not a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct DelegateName(String);

impl DelegateName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DelegateName {
    type Err = InvalidDelegateName;

    fn from_str(text: &str) -> Result<Self, InvalidDelegateName> {
        match text {
            "" => Err(InvalidDelegateName("a plugin's name is not empty")),
            "." | ".." => Err(InvalidDelegateName("a plugin's name is not a folder")),
            _ if text.contains('/') => Err(InvalidDelegateName(
                "it must be a plugin's name, not a path: delegates run from CNI_PATH only",
            )),
            _ if text.contains('\0') => Err(InvalidDelegateName("it contains a NUL character")),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for DelegateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DelegateName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|why| D::Error::custom(format_args!("{text:?}: {why}")))
    }
}

/// Why a text is no delegate's name. Displays as what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDelegateName(&'static str);

impl fmt::Display for InvalidDelegateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidDelegateName {}

/// `CNI_PATH`: the folders in which plugins are looked for.
#[derive(Clone, Debug)]
pub struct SearchPath(OsString);

impl SearchPath {
    /// Reads `CNI_PATH`. Empty entries, which shells take as the working
    /// directory, don't count: no plugin runs from there by accident.
    ///
    /// # Errors
    ///
    /// Code 4 if it is missing or names no folder.
    pub fn from_environment(vars: Environment<'_>) -> Result<Self, Error> {
        let value = vars("CNI_PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = env::split_paths(&value)
            .filter(|folder| !folder.as_os_str().is_empty())
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
        // Cannot fail: the entries come from a split at the same separator.
        Ok(Self(env::join_paths(folders).unwrap_or_default()))
    }

    /// The executable of this name: the first that is there.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`].
    pub fn find(&self, name: &DelegateName) -> Result<PathBuf, Failure> {
        let here = self.folder_of_relative_ones();
        which::which_in(name.as_str(), Some(&self.0), &here).map_err(|_| Failure::NotFound {
            path: self.0.clone(),
            not_executable: self.file_named(name.as_str().as_ref(), &here),
        })
    }

    /// Where folders that aren't absolute begin, if there are such.
    fn folder_of_relative_ones(&self) -> PathBuf {
        let mut folders = env::split_paths(&self.0);
        let here = folders
            .any(|it| it.is_relative())
            .then(|| env::current_dir().ok());
        here.flatten().unwrap_or_else(|| PathBuf::from("/"))
    }

    /// A file of this name that is there but can't be executed.
    fn file_named(&self, name: &OsStr, here: &Path) -> Option<PathBuf> {
        env::split_paths(&self.0)
            .map(|folder| here.join(folder).join(name))
            .find(|file| file.exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_delegate_name() {
        for bad in ["", ".", "..", "/bin/true", "a/b", "./a", "a/", "a\0"] {
            assert!(bad.parse::<DelegateName>().is_err(), "{bad:?}");
        }
        for good in ["host-local", "ipam-ds-x", "...", "a b"] {
            assert!(good.parse::<DelegateName>().is_ok(), "{good:?}");
        }
    }

    fn search_path(value: &str) -> Result<SearchPath, Error> {
        SearchPath::from_environment(&|_| Some(value.into()))
    }

    #[test]
    fn a_search_path_without_folders_is_refused() {
        for value in ["", ":", "::"] {
            let error = search_path(value).unwrap_err();
            assert_eq!(error.code, crate::code::INVALID_ENVIRONMENT);
            assert!(error.msg.contains("CNI_PATH"), "{error}");
        }
    }

    #[test]
    fn empty_entries_do_not_stand_for_the_working_directory() {
        // The tests run in the crate's folder, where Cargo.toml is.
        let name: DelegateName = "Cargo.toml".parse().unwrap();
        let path = search_path(":/nowhere:").unwrap();
        assert!(
            path.file_named(name.as_str().as_ref(), &env::current_dir().unwrap())
                .is_none()
        );
    }
}
