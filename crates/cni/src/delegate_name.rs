//! The name of a plugin's executable.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a plugin's executable in `CNI_PATH`: not a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DelegateName(String);

impl DelegateName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for a selector, which holds no address, by the convention of names:
    /// `ipam-ds-…`.
    pub fn is_selector(&self) -> bool {
        is_selector(&self.0)
    }
}

/// True for the name of a selector: [`DelegateName::is_selector`].
pub fn is_selector(name: &str) -> bool {
    name.starts_with("ipam-ds-")
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

impl TryFrom<String> for DelegateName {
    type Error = InvalidDelegateName;

    fn try_from(text: String) -> Result<Self, InvalidDelegateName> {
        text.parse()
    }
}

impl From<DelegateName> for String {
    fn from(name: DelegateName) -> Self {
        name.0
    }
}

impl fmt::Display for DelegateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a text is no delegate's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDelegateName(&'static str);

impl fmt::Display for InvalidDelegateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidDelegateName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_delegate_name() {
        for bad in ["", ".", "..", "/bin/true", "a/b", "./a", "a/", "a\0"] {
            assert!(bad.parse::<DelegateName>().is_err(), "{bad:?}");
            assert!(serde_json::from_value::<DelegateName>(bad.into()).is_err());
        }
        for good in ["host-local", "ipam-ds-x", "...", "a b"] {
            let name: DelegateName = good.parse().unwrap();
            assert_eq!(serde_json::to_value(&name).unwrap(), good);
        }
    }
}
