//! Commands of the CNI protocol: the values of `CNI_COMMAND`.

use std::fmt;
use std::str::FromStr;

use crate::SpecVersion;

/// The value of `CNI_COMMAND`.
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
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Add,
        Self::Del,
        Self::Check,
        Self::Gc,
        Self::Status,
        Self::Version,
    ];

    /// As `CNI_COMMAND` spells it: `ADD`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
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

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Command {
    type Err = UnknownCommand;

    fn from_str(text: &str) -> Result<Self, UnknownCommand> {
        Self::ALL
            .into_iter()
            .find(|command| command.as_str() == text)
            .ok_or(UnknownCommand)
    }
}

/// The text names no [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCommand;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_reads_back_as_itself() {
        for command in Command::ALL {
            assert_eq!(command.as_str().parse(), Ok(command));
        }
    }

    #[test]
    fn commands_are_upper_case() {
        for text in ["", "add", "Add", "ADD ", "UPDATE"] {
            assert_eq!(text.parse::<Command>(), Err(UnknownCommand), "{text:?}");
        }
    }
}
