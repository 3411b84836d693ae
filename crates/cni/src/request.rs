//! The request of a call: the command and its parameters, from the environment.

use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use strum::VariantNames;

use crate::{Attachment, Command, Environment, Error, InvalidName};

/// A command with the parameters that the specification requires for it.
///
/// Specification, section 2, "CNI operations". A variable that is set to the
/// empty string counts as missing, as in libcni.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Adds an attachment to the network.
    Add(Attachment),
    /// Undoes an attachment.
    Del(Attachment),
    /// Verifies an attachment.
    Check(Attachment),
    /// Releases what belongs to no valid attachment.
    Gc,
    /// Asks whether an ADD would succeed.
    Status,
    /// Asks for the supported versions of the specification.
    Version,
}

impl Request {
    /// Reads and validates the variables that the command requires.
    ///
    /// # Errors
    ///
    /// Code 4, naming every variable that is missing, or the one that is
    /// malformed and its value.
    pub fn from_environment(vars: &Environment) -> Result<Self, Error> {
        const ATTACHMENT: &[&str] = &["CNI_CONTAINERID", "CNI_IFNAME"];
        const ATTACHMENT_AND_NETNS: &[&str] = &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"];
        let vars = Variables(vars);
        vars.require(&["CNI_COMMAND"])?;
        let command = vars.text("CNI_COMMAND")?.unwrap_or_default();
        let command = command.parse().map_err(|_| {
            Error::environment(format!(
                "CNI_COMMAND: {command:?} is unknown; known are {}",
                Command::VARIANTS.join(", ")
            ))
        })?;
        match command {
            Command::Add => vars.attachment(ATTACHMENT_AND_NETNS).map(Self::Add),
            Command::Check => vars.attachment(ATTACHMENT_AND_NETNS).map(Self::Check),
            Command::Del => vars.attachment(ATTACHMENT).map(Self::Del),
            Command::Gc => vars.require(&["CNI_PATH"]).map(|()| Self::Gc),
            Command::Status => Ok(Self::Status),
            Command::Version => Ok(Self::Version),
        }
    }

    /// Only the command.
    pub fn command(&self) -> Command {
        match self {
            Self::Add(_) => Command::Add,
            Self::Del(_) => Command::Del,
            Self::Check(_) => Command::Check,
            Self::Gc => Command::Gc,
            Self::Status => Command::Status,
            Self::Version => Command::Version,
        }
    }

    /// True for DEL and GC: a mistake in the configuration must not prevent them.
    pub fn releases(&self) -> bool {
        matches!(self, Self::Del(_) | Self::Gc)
    }

    /// The attachment that the request is about, if it is about one.
    pub fn attachment(&self) -> Option<&Attachment> {
        match self {
            Self::Add(attachment) | Self::Del(attachment) | Self::Check(attachment) => {
                Some(attachment)
            }
            Self::Gc | Self::Status | Self::Version => None,
        }
    }
}

struct Variables<'a>(&'a Environment);

impl<'a> Variables<'a> {
    fn get(&self, name: &str) -> Option<&'a OsStr> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    /// Refuses a call without all of these.
    fn require(&self, names: &[&str]) -> Result<(), Error> {
        let missing: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| self.get(name).is_none())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Error::environment(format!(
                "{} missing from the environment",
                missing.join(", ")
            )))
        }
    }

    /// The attachment. Refuses a call without all of the `required` variables.
    fn attachment(&self, required: &[&str]) -> Result<Attachment, Error> {
        self.require(required)?;
        Ok(Attachment {
            container_id: self.name("CNI_CONTAINERID")?,
            ifname: self.name("CNI_IFNAME")?,
        })
    }

    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        self.get(name)
            .map(|value| OsString::from(value).into_string())
            .transpose()
            .map_err(|value| Error::environment(format!("{name}: {value:?} is not valid UTF-8")))
    }

    fn name<T: FromStr<Err = InvalidName>>(&self, variable: &str) -> Result<T, Error> {
        let text = self.text(variable)?.unwrap_or_default();
        text.parse()
            .map_err(|e| Error::environment(format!("{variable}: {text:?} is malformed: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(vars: &[(&str, &str)]) -> Result<Request, Error> {
        let set =
            |environment: Environment, (name, value): &(&str, &str)| environment.with(name, value);
        Request::from_environment(&vars.iter().fold(Environment::default(), set))
    }

    const FULL: [(&str, &str); 5] = [
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/c1"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", ""),
        ("CNI_PATH", "/opt/cni/bin"),
    ];

    fn required_for(command: Command) -> &'static [&'static str] {
        match command {
            Command::Add | Command::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
            Command::Del => &["CNI_CONTAINERID", "CNI_IFNAME"],
            Command::Gc => &["CNI_PATH"],
            Command::Status | Command::Version => &[],
        }
    }

    #[test]
    fn each_variable_is_required_exactly_where_the_specification_requires_it() {
        for &command in Command::ALL {
            for (missing, _) in FULL {
                for value in [None, Some("")] {
                    let mut vars: Vec<_> = FULL
                        .into_iter()
                        .filter(|(name, _)| *name != missing)
                        .collect();
                    vars.push(("CNI_COMMAND", command.as_str()));
                    vars.extend(value.map(|value| (missing, value)));
                    let got = request(&vars);
                    if required_for(command).contains(&missing) {
                        let error = got.unwrap_err();
                        assert_eq!(error.code, crate::code::INVALID_ENVIRONMENT);
                        assert!(error.msg.contains(missing), "{command} {missing}: {error}");
                    } else {
                        assert_eq!(got.unwrap().command(), command, "without {missing}");
                    }
                }
            }
        }
    }

    #[test]
    fn all_missing_variables_are_named_at_once() {
        let error = request(&[("CNI_COMMAND", "ADD")]).unwrap_err();
        assert_eq!(
            error.msg,
            "CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS missing from the environment"
        );
    }

    #[test]
    fn a_malformed_variable_is_named_with_its_value() {
        for (name, value) in [("CNI_CONTAINERID", "../x"), ("CNI_IFNAME", "a/b")] {
            let mut vars = FULL
                .map(|(n, v)| if n == name { (n, value) } else { (n, v) })
                .to_vec();
            vars.push(("CNI_COMMAND", "DEL"));
            let error = request(&vars).unwrap_err();
            assert_eq!(error.code, crate::code::INVALID_ENVIRONMENT);
            assert!(
                error.msg.contains(name) && error.msg.contains(value),
                "{error}"
            );
        }
    }

    #[test]
    fn an_unknown_command_is_named() {
        assert!(
            request(&[("CNI_COMMAND", "UPDATE")])
                .unwrap_err()
                .msg
                .contains("\"UPDATE\"")
        );
        assert!(request(&[]).unwrap_err().msg.contains("CNI_COMMAND"));
    }
}
