//! The name of a pool, which is also the name of a directory of reservations.

use std::fmt;
use std::str::FromStr;

use cni::NetworkName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The longest name of a file on Linux (`NAME_MAX`).
const LONGEST: usize = 255;

/// A pool's name: `[A-Za-z0-9][A-Za-z0-9_.-]*`, the rule of network names, at most
/// 255 bytes. A named pool and a network of the same name share a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PoolName(NetworkName);

impl PoolName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The name of the directory of the pool's reservations.
    pub fn directory(&self) -> &NetworkName {
        &self.0
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
        text.parse()
            .map(Self)
            .map_err(|why| invalid(why.to_string()))
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for PoolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_out_of_its_directory_is_no_pool_name() {
        for good in ["blue", "0", "prod.db-0_x", &"x".repeat(255)] {
            let name: PoolName = serde_json::from_str(&format!("{good:?}")).unwrap();
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("{good:?}"));
        }
        for bad in ["", ".", "..", "../x", "a/b", "a b", "-a", &"x".repeat(256)] {
            let error = serde_json::from_str::<PoolName>(&format!("{bad:?}")).unwrap_err();
            assert!(error.to_string().contains("can't name a pool: "), "{error}");
        }
    }
}
