//! Address spaces: the pools of one don't overlap, and each has its own reservations.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of the space of networks that only this node has.
pub(crate) const LOCAL: &str = "ipam-delegated-local";

/// The name of the space of networks that span nodes.
pub(crate) const GLOBAL: &str = "ipam-delegated-global";

/// The longest name: it is part of a folder's.
const LONGEST: usize = 64;

/// The name of an address space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct AddressSpace(String);

impl AddressSpace {
    /// The part of a network's name that this space adds; none for the local one.
    pub(crate) fn prefix(&self) -> String {
        match self.0.as_str() {
            LOCAL => String::new(),
            other => format!("{other}-"),
        }
    }
}

impl FromStr for AddressSpace {
    type Err = String;

    /// # Errors
    ///
    /// The reason why the text is no name of an address space.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_known = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if text.is_empty() {
            return Err("AddressSpace is missing".to_owned());
        }
        if text.len() > LONGEST
            || !text.chars().all(is_known)
            || !text.starts_with(char::is_alphanumeric)
        {
            return Err(format!(
                "AddressSpace: {text:?} is no name of up to {LONGEST} letters, digits, '_', '.' and '-'"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for AddressSpace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AddressSpace> for String {
    fn from(space: AddressSpace) -> Self {
        space.0
    }
}

impl fmt::Display for AddressSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_space_can_be_part_of_a_folders() {
        for name in [LOCAL, GLOBAL, "rojo", "tenant_1.a"] {
            assert_eq!(name.parse::<AddressSpace>().unwrap().to_string(), name);
        }
        for name in ["", "a/b", "..", "a b", &"x".repeat(65)] {
            assert!(name.parse::<AddressSpace>().is_err(), "{name}");
        }
    }
}
