//! The machine that has a node's name: the value of the node's key in etcd, and its copy in
//! a folder that a boot empties.

use std::fmt;
use std::io;
use std::path::Path;

use cni::{Environment, Error};
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use state_files::{StateFolder, boot_id};

use crate::{Cluster, Since};

/// Names a folder to be read instead of `/sys`.
const SYS: &str = "IPAM_DELEGATED_SYS";

/// A registration: it is new in each boot, and every claim is made on the condition that
/// etcd has exactly this value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The token on the machine's disk.
    pub token: String,
    /// Random, and new in each boot. Empty in a value that an earlier release wrote.
    #[serde(default)]
    pub incarnation: String,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
    /// The machine's time.
    pub since: String,
}

/// A machine in one of its boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The host's name.
    #[serde(default)]
    pub host: Option<String>,
    /// The hardware's or virtual machine's UUID; `None` if it isn't known.
    #[serde(default)]
    pub hardware: Option<String>,
    /// The ID that the kernel gave the boot.
    #[serde(default)]
    pub boot: Option<String>,
}

impl Registration {
    /// A registration of this machine with a new incarnation.
    pub fn new(token: &str, incarnation: String, machine: Machine) -> Self {
        Self {
            token: token.to_owned(),
            incarnation,
            machine,
            since: Since::now().as_str().to_owned(),
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

    /// The machine that a value names, for people.
    pub fn describe(value: &[u8]) -> String {
        match Self::parse(value) {
            Some(it) => it.to_string(),
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
    /// Code 5: the boot's ID can't be read, or the UUID can't be read although there is one.
    pub fn this(environment: &Environment) -> Result<Self, Error> {
        Ok(Self {
            host: Some(uname().nodename().to_string_lossy().into_owned()),
            hardware: hardware(environment)?,
            boot: Some(this_boot(environment)?),
        })
    }

    /// The reason why this can't be the machine that `before` was, in a later boot; `None` if
    /// nothing is known against it.
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
        let known = |it: &Option<String>| it.clone().unwrap_or_else(|| "unknown".to_owned());
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
/// Code 5: without it, a registration of an earlier boot couldn't be told from this one's.
fn this_boot(environment: &Environment) -> Result<String, Error> {
    boot_id(environment).ok_or_else(|| {
        Error::io(
            "/proc/sys/kernel/random/boot_id",
            "it can't be read, so the boot isn't known",
        )
    })
}

/// `product_uuid` of the firmware. Only root may read it, and not every machine has it.
fn hardware(environment: &Environment) -> Result<Option<String>, Error> {
    let sys = environment.get(SYS).unwrap_or("/sys".as_ref());
    let path = Path::new(sys).join("class/dmi/id/product_uuid");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_lowercase()).filter(|it| !it.is_empty())),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(None),
            _ => Err(Error::io(path.display(), error)),
        },
    }
}

/// The registration of this boot, as etcd has confirmed it: a file in `etcd.cacheDir`, which
/// a boot empties.
///
/// A copied disk doesn't have the file. Where the folder does last over a boot, the boot's ID
/// in the file is another.
#[derive(Debug)]
pub struct BootFile {
    folder: StateFolder,
    name: String,
}

impl BootFile {
    /// Opens its folder; makes it if it is missing.
    ///
    /// # Errors
    ///
    /// Code 5, naming the folder.
    pub fn open(cluster: &Cluster) -> Result<Self, Error> {
        let path = &cluster.settings.cache_dir;
        let folder = StateFolder::create(path).map_err(|e| Error::io(path.display(), e))?;
        let prefix = cluster.settings.prefix.replace('/', "_");
        Ok(Self {
            folder,
            name: format!("registered{prefix}_{}.json", cluster.node),
        })
    }

    /// The registration; `None` if there is none of this boot yet.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file: it can't be read, or the boot's ID can't be.
    pub fn read(&self, environment: &Environment) -> Result<Option<Registration>, Error> {
        let bytes = match self.folder.read(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| Error::io(self.folder.path_of(&self.name).display(), e))?,
        };
        let boot = Some(this_boot(environment)?);
        // Content that isn't ours is no registration: the node asks etcd for a new one.
        Ok(Registration::parse(&bytes).filter(|it| it.machine.boot == boot))
    }

    /// Forgets the registration: another machine has the name.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file.
    pub fn remove(&self) -> Result<(), Error> {
        self.folder
            .remove(&self.name)
            .map_err(|e| Error::io(self.folder.path_of(&self.name).display(), e))
    }

    /// Notes what etcd has confirmed.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file.
    pub fn write(&self, registration: &Registration) -> Result<(), Error> {
        let value = registration.to_value();
        self.folder
            .replace(&self.name, value.as_bytes())
            .map_err(|e| Error::io(self.folder.path_of(&self.name).display(), e))
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
    fn a_machine_is_another_if_its_host_or_its_hardware_is() {
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
    fn the_value_of_an_earlier_release_is_read() {
        let it = Registration::parse(br#"{"token":"ab","since":"2026-01-01T00:00:00Z"}"#).unwrap();
        assert_eq!(it.incarnation, "");
        assert_eq!(
            it.to_string(),
            "host unknown (boot unknown), registered at 2026-01-01T00:00:00Z"
        );
        for foreign in ["", "[]", "{}", r#"{"token":1}"#] {
            assert_eq!(Registration::parse(foreign.as_bytes()), None);
        }
        let new = Registration::new("ab", "cd".to_owned(), machine("h", None, "b"));
        assert_eq!(Registration::parse(new.to_value().as_bytes()), Some(new));
    }
}
