use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::SpecVersion;

/// A command of the CNI protocol: the value of `CNI_COMMAND`.
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "UPPERCASE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Add a container to the network.
    Add,
    /// Remove a container from the network.
    Del,
    /// Verify that a container is attached as expected.
    Check,
    /// Release what belongs to no valid attachment.
    Gc,
    /// Say whether an ADD would be served.
    Status,
    /// Say which versions of the specification are supported.
    Version,
}

impl Command {
    /// All commands, in the order of the specification.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// As `CNI_COMMAND` spells it: `ADD`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The oldest supported version of the specification that knows the command.
    pub fn since(self) -> SpecVersion {
        match self {
            Self::Add | Self::Del | Self::Version => SpecVersion::V0_3_0,
            Self::Check => SpecVersion::V0_4_0,
            Self::Gc | Self::Status => SpecVersion::V1_1_0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_reads_back_as_itself() {
        for &command in Command::ALL {
            assert_eq!(command.as_str().parse(), Ok(command));
        }
    }

    #[test]
    fn commands_are_upper_case() {
        for text in ["", "add", "Add", "ADD ", "UPDATE"] {
            assert_eq!(
                text.parse::<Command>(),
                Err(strum::ParseError::VariantNotFound),
                "{text:?}"
            );
        }
    }
}
