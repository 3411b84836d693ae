//! Names of containers, interfaces, networks and plugins. A value of these types is valid,
//! whether it was parsed or deserialized.

use std::str::FromStr;

use derive_more::{Display, Error};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Error, Object};

/// The rule that a text breaks, so that it is no name of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Error)]
pub struct InvalidName(#[error(not(source))] &'static str);

/// The rule of container IDs and network names: `[A-Za-z0-9][A-Za-z0-9_.-]*`.
/// Such a name is safe as one component of a path.
fn check_identifier(text: &str) -> Result<(), InvalidName> {
    let mut bytes = text.bytes();
    match bytes.next() {
        None => return Err(InvalidName("it is empty")),
        Some(first) if !first.is_ascii_alphanumeric() => {
            return Err(InvalidName(
                "it must start with a letter or a digit (ASCII)",
            ));
        }
        Some(_) => {}
    }
    if bytes.all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)) {
        Ok(())
    } else {
        Err(InvalidName(
            "only letters, digits (ASCII), underscores, dots and hyphens are allowed",
        ))
    }
}

/// The kernel's rule of interface names, as libcni checks it (`pkg/utils`,
/// `ValidateInterfaceName`).
fn check_ifname(text: &str) -> Result<(), InvalidName> {
    if text.is_empty() {
        Err(InvalidName("it is empty"))
    } else if text.len() > 15 {
        Err(InvalidName("it is longer than 15 bytes"))
    } else if text == "." || text == ".." {
        Err(InvalidName("it is . or .."))
    } else if text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace()) {
        Err(InvalidName("it contains /, : or white space"))
    } else {
        Ok(())
    }
}

/// The rule of plugins' names: a file's name, so that delegates run from `CNI_PATH` only.
fn check_delegate_name(text: &str) -> Result<(), InvalidName> {
    match text {
        "" => Err(InvalidName("a plugin's name is not empty")),
        "." | ".." => Err(InvalidName("a plugin's name is not a folder")),
        _ if text.contains('/') => Err(InvalidName(
            "it must be a plugin's name, not a path: delegates run from CNI_PATH only",
        )),
        _ if text.contains('\0') => Err(InvalidName("it contains a NUL character")),
        _ => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                $check(text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                match $check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(why) => Err(D::Error::custom(format_args!(
                        concat!("{:?} is no ", $kind, ": {}"),
                        text, why
                    ))),
                }
            }
        }
    };
}

name!(
    /// `CNI_CONTAINERID`: `[A-Za-z0-9][A-Za-z0-9_.-]*`.
    ContainerId,
    "container ID",
    check_identifier
);

name!(
    /// `CNI_IFNAME`: 1 to 15 bytes, not `.` or `..`, without `/`, `:` and white space.
    IfName,
    "interface name",
    check_ifname
);

name!(
    /// The configuration's `name`: `[A-Za-z0-9][A-Za-z0-9_.-]*`.
    NetworkName,
    "network name",
    check_identifier
);

name!(
    /// The name of a plugin's executable in `CNI_PATH`: not a path.
    DelegateName,
    "plugin's name",
    check_delegate_name
);

impl DelegateName {
    /// [`holds_nothing`] of this name.
    pub fn holds_nothing(&self) -> bool {
        holds_nothing(&self.0)
    }

    /// True if it finds facts, by its name.
    pub fn finds_facts(&self) -> bool {
        role(&self.0) == Some('f')
    }

    /// True if it selects pools, by its name.
    pub fn selects(&self) -> bool {
        role(&self.0) == Some('s')
    }

    /// True if it allocates addresses, by its name. A delegate with any other name may allocate, too.
    pub fn allocates(&self) -> bool {
        role(&self.0) == Some('a')
    }

    /// True if it checks what was allocated, by its name.
    pub fn checks(&self) -> bool {
        role(&self.0) == Some('c')
    }
}

/// True if a delegate of this name never holds anything for an attachment: one that finds facts,
/// selects pools or checks what was allocated. Any other delegate may hold something.
pub fn holds_nothing(name: &str) -> bool {
    role(name).is_some_and(|role| "fsc".contains(role))
}

/// The role of a delegate of this name: the letter behind `ipam-d`. `f` finds facts, `s` selects
/// pools, `a` allocates, `c` checks what was allocated.
fn role(name: &str) -> Option<char> {
    let (role, name) = name.strip_prefix("ipam-d")?.split_once('-')?;
    let mut letters = role.chars();
    let letter = letters.next()?;
    (letters.next().is_none() && !name.is_empty()).then_some(letter)
}

/// One interface of one container: the unit that is added to a network.
/// Specification, section 3.
///
/// As JSON it is an entry of `cni.dev/valid-attachments`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[display("{container_id} {ifname}")]
pub struct Attachment {
    /// `CNI_CONTAINERID`: ID of the container or sandbox in its runtime.
    #[serde(rename = "containerID")]
    pub container_id: ContainerId,
    /// The interface inside of it.
    pub ifname: IfName,
}

impl Attachment {
    /// Reads an entry of `cni.dev/valid-attachments`; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7 for a missing or an invalid name.
    pub fn read(path: &str, entry: &Object) -> Result<Self, Error> {
        Ok(Self {
            container_id: entry.required(path, "containerID")?,
            ifname: entry.required(path, "ifname")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_no_attachment_with_an_invalid_name() {
        let json = r#"{"containerID":"c1","ifname":"eth0"}"#;
        let read = |json: &str| Attachment::read("list[0]", &serde_json::from_str(json).unwrap());
        let attachment = read(json).unwrap();
        assert_eq!(attachment.to_string(), "c1 eth0");
        assert_eq!(serde_json::to_string(&attachment).unwrap(), json);
        assert_eq!(
            read(r#"{"ContainerId":"c1","ifName":"eth0"}"#),
            Ok(attachment)
        );
        for (json, message) in [
            (
                r#"{"containerID":"../x","ifname":"eth0"}"#,
                "list[0].containerID: \"../x\" is no container ID: it must start with a letter or a digit (ASCII)",
            ),
            (
                r#"{"containerID":"c1","ifname":"a\u002fb"}"#,
                "list[0].ifname: \"a/b\" is no interface name: it contains /, : or white space",
            ),
            (r#"{"containerID":"c1"}"#, "list[0].ifname is missing"),
            (
                r#"{"containerID":1,"ifname":"eth0"}"#,
                "list[0].containerID: invalid type: integer `1`, expected a string",
            ),
        ] {
            assert_eq!(read(json).unwrap_err().msg, message);
        }
    }

    #[test]
    fn container_ids_follow_the_specification() {
        for good in ["a", "0", "pod-1_x.y", "8f3e", &"a".repeat(300)] {
            assert!(good.parse::<ContainerId>().is_ok(), "{good:?}");
        }
        for bad in [
            "", ".a", "-a", "_a", "a/b", "a b", "a\n", "ä", "a:b", "../x",
        ] {
            assert!(bad.parse::<ContainerId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn interface_names_are_what_the_kernel_takes() {
        for good in ["eth0", "a", "...", "vlan.100", "15-bytes-long-x", "ü"] {
            assert!(good.parse::<IfName>().is_ok(), "{good:?}");
        }
        for bad in [
            "",
            ".",
            "..",
            "16-bytes-long-xx",
            "a/b",
            "a:b",
            "a b",
            "a\t",
            "a\u{a0}b",
        ] {
            assert!(bad.parse::<IfName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_finds_facts_selects_or_checks_holds_nothing_by_its_name() {
        for name in ["ipam-df-x", "ipam-ds-x", "ipam-dc-x"] {
            assert!(holds_nothing(name), "{name}");
        }
        for name in ["ipam-da-x", "ipam-d-x", "ipam-dsx", "my-ipam-ds-x", "dhcp"] {
            assert!(!holds_nothing(name), "{name}");
        }
    }

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
