//! The versions of the CNI specification.

use std::fmt;
use std::str::FromStr;

/// A version of the CNI specification that this project speaks.
///
/// They compare by age: an older version is less than a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecVersion {
    /// 0.3.0: several addresses in a result, chains of plugins.
    V0_3_0,
    /// 0.3.1: 0.3.0 with a typing error corrected.
    V0_3_1,
    /// 0.4.0: CHECK, and `prevResult` on DEL.
    V0_4_0,
    /// 1.0.0: no `version` in a result's `ips` any more.
    V1_0_0,
    /// 1.1.0: GC and STATUS.
    V1_1_0,
}

impl SpecVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V0_3_0,
        Self::V0_3_1,
        Self::V0_4_0,
        Self::V1_0_0,
        Self::V1_1_0,
    ];

    /// The newest.
    pub const LATEST: Self = Self::V1_1_0;

    /// As the specification writes it: `1.0.0`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// All of them in one line, for people: `0.3.0, 0.3.1, …`.
    pub fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// True if an entry of a result's `ips` carries its family as `version`.
    pub fn ips_carry_version(self) -> bool {
        self < Self::V1_0_0
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SpecVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or(UnknownVersion)
    }
}

/// The text names no version in [`SpecVersion::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_back_as_itself() {
        for version in SpecVersion::ALL {
            assert_eq!(version.as_str().parse(), Ok(version));
        }
    }

    #[test]
    fn versions_are_listed_oldest_first() {
        assert!(SpecVersion::ALL.is_sorted());
        assert_eq!(SpecVersion::ALL.last(), Some(&SpecVersion::LATEST));
    }

    #[test]
    fn what_the_specification_never_released_is_no_version() {
        for text in ["", "0.2.0", "1.0", "1.1.0 ", "v1.0.0", "2.0.0"] {
            assert_eq!(text.parse::<SpecVersion>(), Err(UnknownVersion), "{text:?}");
        }
    }
}
