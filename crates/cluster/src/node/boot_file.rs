//! The file with the node's registration of this boot, in a folder that a boot empties.

use cni::{Environment, Error};

use super::machine::{Registration, this_boot};
use super::state_file::StateFile;
use crate::Node;

/// The registration of this boot, as the engine has confirmed it.
///
/// A copied disk doesn't have the file. In a folder that survives a boot, the boot's ID in the
/// file differs.
#[derive(Debug)]
pub(crate) struct BootFile(StateFile);

impl BootFile {
    pub(crate) fn open(node: &Node) -> Result<Self, Error> {
        StateFile::open(&node.cache_dir, node.file_name("registered")).map(Self)
    }

    /// The registration; `None` if there is none of this boot yet.
    pub(crate) fn read(&self, environment: &Environment) -> Result<Option<Registration>, Error> {
        let Some(content) = self.0.read()? else {
            return Ok(None);
        };
        let boot = Some(this_boot(environment)?);
        // Foreign content is no registration: the node asks the engine for a new one.
        let read = Registration::parse(&content);
        Ok(read.filter(|registration| registration.machine.boot == boot))
    }

    /// Forgets the registration: another machine has the name.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.0.remove()
    }

    /// Writes a registration that the engine has confirmed.
    pub(crate) fn write(&self, registration: &Registration) -> Result<(), Error> {
        self.0.replace(registration.to_value().as_bytes())
    }
}
