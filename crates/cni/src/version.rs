//! The versions of the CNI specification.

use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// A version of the CNI specification that this project speaks.
///
/// They compare by age: an older version is less than a newer one.
#[derive(
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
)]
pub enum SpecVersion {
    /// 0.3.0: several addresses in a result, chains of plugins.
    #[strum(serialize = "0.3.0")]
    V0_3_0,
    /// 0.3.1: 0.3.0 with a typing error corrected.
    #[strum(serialize = "0.3.1")]
    V0_3_1,
    /// 0.4.0: CHECK, and `prevResult` on DEL.
    #[strum(serialize = "0.4.0")]
    V0_4_0,
    /// 1.0.0: no `version` in a result's `ips` any more.
    #[strum(serialize = "1.0.0")]
    V1_0_0,
    /// 1.1.0: GC and STATUS.
    #[strum(serialize = "1.1.0")]
    V1_1_0,
}

impl SpecVersion {
    /// All of them, oldest first.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// Their names, oldest first.
    pub const NAMES: &[&str] = <Self as VariantNames>::VARIANTS;

    /// The newest version of the specification that is spoken.
    pub const LATEST: Self = Self::V1_1_0;

    /// As the specification writes it: `1.0.0`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// True if an entry of a result's `ips` carries its family as `version`.
    pub fn ips_carry_version(self) -> bool {
        self < Self::V1_0_0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_back_as_itself() {
        for &version in SpecVersion::ALL {
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
            assert_eq!(
                text.parse::<SpecVersion>(),
                Err(strum::ParseError::VariantNotFound),
                "{text:?}"
            );
        }
    }
}
