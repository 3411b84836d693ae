//! A machine and one of its boots: the value of a registration.

use std::fmt;
use std::io;
use std::path::Path;

use cni::{Environment, Error};
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use state_files::boot_id;

use crate::value::now;

/// Variable that names a folder to read instead of `/sys`.
const SYS: &str = "IPAM_DELEGATED_SYS";

/// A registration. It is new in each boot, and every claim has the condition that the engine has
/// exactly this value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The token on this machine's disk.
    pub token: String,
    /// Random, and new in each boot.
    pub incarnation: String,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
    /// Time of the registration by the machine's clock.
    pub since: String,
}

/// A machine and one of its boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The hostname.
    pub host: Option<String>,
    /// The UUID of the hardware or virtual machine; `None` if it is unknown.
    pub hardware: Option<String>,
    /// The kernel's ID of the boot.
    pub boot: Option<String>,
}

impl Registration {
    /// A registration of this machine with a new incarnation.
    pub fn new(token: &str, incarnation: String, machine: Machine) -> Self {
        Self {
            token: token.to_owned(),
            incarnation,
            machine,
            since: now(),
        }
    }

    /// Reads a value; `None` for foreign content.
    pub fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The value.
    pub fn to_value(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }

    /// The machine in a value, for messages.
    pub fn describe(value: &[u8]) -> String {
        match Self::parse(value) {
            Some(registration) => registration.to_string(),
            None => format!(
                "unknown (its key has content that isn't ours: {})",
                cni::Excerpt(&String::from_utf8_lossy(value))
            ),
        }
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, registered at {}", self.machine, self.since)
    }
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    ///
    /// Code 5: the boot's ID or an existing UUID can't be read.
    pub fn this(environment: &Environment) -> Result<Self, Error> {
        Ok(Self {
            host: Some(uname().nodename().to_string_lossy().into_owned()),
            hardware: hardware(environment)?,
            boot: Some(this_boot(environment)?),
        })
    }

    /// The reason why this can't be a later boot of the machine `before`; `None` if there is none.
    pub fn differs_from(&self, before: &Self) -> Option<&'static str> {
        let differs = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        if differs(&self.hardware, &before.hardware) {
            return Some("its hardware is another");
        }
        differs(&self.host, &before.host).then_some("its host's name is another")
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        write!(f, "host {} (", known(&self.host))?;
        if let Some(hardware) = &self.hardware {
            write!(f, "hardware {hardware}, ")?;
        }
        write!(f, "boot {})", known(&self.boot))
    }
}

/// The ID of this boot.
///
/// # Errors
///
/// Code 5: without the ID, registrations of this boot and of an earlier one look alike.
pub(crate) fn this_boot(environment: &Environment) -> Result<String, Error> {
    boot_id(environment).ok_or_else(|| {
        Error::io(
            "/proc/sys/kernel/random/boot_id",
            "it can't be read, so the boot isn't known",
        )
    })
}

/// `product_uuid` of the firmware. Only root may read it, and some machines don't have it.
fn hardware(environment: &Environment) -> Result<Option<String>, Error> {
    let sys = environment.get(SYS).unwrap_or("/sys".as_ref());
    let path = Path::new(sys).join("class/dmi/id/product_uuid");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_lowercase()).filter(|uuid| !uuid.is_empty())),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(None),
            _ => Err(Error::io(path.display(), error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(host: &str, hardware: Option<&str>, boot: &str) -> Machine {
        Machine {
            host: Some(host.to_owned()),
            hardware: hardware.map(str::to_owned),
            boot: Some(boot.to_owned()),
        }
    }

    #[test]
    fn a_machine_differs_by_its_host_or_its_hardware() {
        let before = machine("a", Some("1"), "first");
        for (now, differs) in [
            (machine("a", Some("1"), "second"), false),
            (machine("a", None, "second"), false),
            (machine("b", Some("1"), "second"), true),
            (machine("a", Some("2"), "second"), true),
        ] {
            assert_eq!(now.differs_from(&before).is_some(), differs, "{now}");
        }
        assert_eq!(before.differs_from(&Machine::default()), None);
    }

    #[test]
    fn the_hardware_is_its_uuid_and_unknown_only_where_none_is_shown() {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().join("class/dmi/id");
        let of = || hardware(&Environment::default().with(SYS, sys.path()));
        assert_eq!(of().unwrap(), None);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("product_uuid");
        for (text, uuid) in [("4C4C-AB\n", Some("4c4c-ab")), (" \n", None)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(of().unwrap().as_deref(), uuid);
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let error = of().unwrap_err();
        assert_eq!(error.code, cni::code::IO);
        assert!(error.msg.contains("product_uuid"), "{error}");
    }

    #[test]
    fn a_machine_is_this_host_in_this_boot() {
        let environment = Environment::default();
        let this = Machine::this(&environment).unwrap();
        assert_eq!(this.boot, Some(this_boot(&environment).unwrap()));
        let host = uname().nodename().to_string_lossy().into_owned();
        assert_eq!(this.host, Some(host));
    }

    #[test]
    fn a_registration_is_read_as_it_was_written_and_foreign_content_is_none() {
        for foreign in ["", "[]", "{}", r#"{"token":1}"#] {
            assert_eq!(Registration::parse(foreign.as_bytes()), None);
        }
        let new = Registration::new("ab", "cd".to_owned(), machine("h", None, "b"));
        assert_eq!(Registration::parse(new.to_value().as_bytes()), Some(new));
    }
}
