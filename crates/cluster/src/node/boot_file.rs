//! The file with the node's registration in this boot, in a folder that a boot empties.

use cni::{Environment, Error};

use super::machine::{Registration, this_boot};
use super::state_file::StateFile;
use crate::Node;

/// Kind of the file, for its name.
const KIND: &str = "registered";

/// The registration in this boot, which the engine has confirmed.
///
/// A copied disk doesn't have the file. If the folder survives a boot, the file has another boot's
/// ID.
#[derive(Debug)]
pub(crate) struct BootFile(StateFile);

/// The node of a file with this name; `None` if the file is of another kind. The name of a node
/// with another prefix may look like one with this prefix.
pub(crate) fn node_of<'f>(node: &Node, file: &'f str) -> Option<&'f str> {
    let prefix = format!("{KIND}{}_", node.prefix_in_names());
    file.strip_prefix(&prefix)?.strip_suffix(".json")
}

impl BootFile {
    pub(crate) fn open(node: &Node) -> Result<Self, Error> {
        StateFile::open(&node.cache_dir, node.file_name(KIND)).map(Self)
    }

    /// The registration; `None` if the file is missing or of an earlier boot.
    pub(crate) fn read(&self, environment: &Environment) -> Result<Option<Registration>, Error> {
        let Some(content) = self.0.read()? else {
            return Ok(None);
        };
        let boot = Some(this_boot(environment)?);
        // Foreign content counts as missing: the node registers again.
        let read = Registration::parse(&content);
        Ok(read.filter(|registration| registration.machine.boot == boot))
    }

    /// Deletes the registration, because another machine has the name.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.0.remove()
    }

    /// Writes a registration that the engine has confirmed.
    pub(crate) fn write(&self, registration: &Registration) -> Result<(), Error> {
        self.0.replace(registration.to_value().as_bytes())
    }
}
