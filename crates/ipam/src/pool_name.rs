//! The name of a pool, and of the directory of its reservations.

use std::str::FromStr;

use cni::{Error, NetworkName};
use derive_more::Display;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Directory of the reservations of named pools without a `space`.
pub const POOLS_DIRECTORY: &str = "pools";

/// Names of directories that no network can have: that of named pools, and that of Docker
/// networks without a conflist.
const RESERVED: [&str; 2] = [POOLS_DIRECTORY, "docker"];

/// Longest name of a file or a directory on Linux, in bytes.
pub(crate) const NAME_MAX: usize = 255;

/// The longest name of a pool: the file of its rotation is named after it.
const LONGEST: usize = NAME_MAX - "last_reserved_ip.".len();

/// The name of the directory of named pools without a `space`.
pub fn pools_directory() -> NetworkName {
    POOLS_DIRECTORY.parse().expect("it is a valid name")
}

/// A pool's name: `[A-Za-z0-9][A-Za-z0-9_.-]*`, the rule of network names, at most 238 bytes,
/// and not only digits, which number the pools without a name.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PoolName(NetworkName);

impl PoolName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for PoolName {
    /// The name, and the rule that it breaks.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = |why: String| format!("{text:?} can't name a pool: {why}");
        if text.len() > LONGEST {
            return Err(invalid(format!("it is longer than {LONGEST} bytes")));
        }
        let name = text.parse().map_err(|why| invalid(format!("{why}")))?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid("it has only digits".to_owned()));
        }
        Ok(Self(name))
    }
}

impl<'de> Deserialize<'de> for PoolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// Refuses a network that has the name of a directory which networks share.
///
/// # Errors
///
/// Code 7, naming the key and the value.
pub fn refuse_reserved_name(network: &NetworkName) -> Result<(), Error> {
    if RESERVED.contains(&network.as_str()) {
        return Err(Error::config(format!(
            "name: no network can be called {:?}: reservations of several networks are in the \
             directory of this name",
            network.as_str()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_rotation_file_can_have_is_no_pool_name() {
        for good in ["blue", "0x", "prod.db-0_x", &"x".repeat(238)] {
            let name: PoolName = serde_json::from_str(&format!("{good:?}")).unwrap();
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("{good:?}"));
        }
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a b",
            "-a",
            "0",
            "17",
            &"x".repeat(239),
        ] {
            let error = serde_json::from_str::<PoolName>(&format!("{bad:?}")).unwrap_err();
            assert!(error.to_string().contains("can't name a pool: "), "{error}");
        }
    }

    #[test]
    fn a_network_cannot_be_named_like_a_shared_directory() {
        for (name, is_refused) in [("pools", true), ("docker", true), ("pool", false)] {
            let name = name.parse().unwrap();
            assert_eq!(refuse_reserved_name(&name).is_err(), is_refused, "{name}");
        }
    }
}
