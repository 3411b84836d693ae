//! This node: its name in the cluster, and the folders of its files.

pub(crate) mod boot_file;
pub(crate) mod cache_files;
pub(crate) mod identity;
pub(crate) mod machine;
pub(crate) mod second_name;
pub(crate) mod state_file;
pub(crate) mod token_file;

use std::path::PathBuf;
use std::time::Duration;

use cni::{Error, NetworkName, Object};
use rustix::system::uname;

/// This node, as the configuration of a call describes it.
#[derive(Clone, Debug)]
pub struct Node {
    /// `ipam.node`, or else a name that isn't in the configuration, such as the hostname.
    pub name: String,
    /// True if `ipam.node` is the name. Another name may change by accident.
    pub is_named: bool,
    /// Folder of the files that must survive a boot.
    pub state_dir: PathBuf,
    /// Folder of the files that a boot removes.
    pub cache_dir: PathBuf,
    /// Name of the place of the pools in the engine. Files of several places may share a folder.
    pub prefix: String,
    /// The engine's addresses.
    pub endpoints: Vec<String>,
    /// Time limit of a call.
    pub timeout: Duration,
}

impl Node {
    /// The prefix as a part of a file's name.
    pub(crate) fn prefix_in_names(&self) -> String {
        self.prefix.replace('/', "_")
    }

    /// Name of this node's file of a kind.
    pub(crate) fn file_name(&self, kind: &str) -> String {
        format!("{kind}{}_{}.json", self.prefix_in_names(), self.name)
    }
}

/// `ipam.node`, if it is set.
///
/// # Errors
///
/// Code 7 if it isn't a text.
pub fn configured_name(ipam: &Object) -> Result<Option<String>, Error> {
    let configured: Option<String> = ipam.read("ipam", "node")?;
    Ok(configured.filter(|name| !name.is_empty()))
}

/// `ipam.node`, or else the hostname.
///
/// # Errors
///
/// Code 7, naming the key and the value, for a name that can't be a part of a key.
pub fn node_name(ipam: &Object) -> Result<String, Error> {
    let (name, from) = match configured_name(ipam)? {
        Some(name) => (name, "ipam.node"),
        None => (
            uname().nodename().to_string_lossy().into_owned(),
            "ipam.node is missing, and the host's name",
        ),
    };
    // Names of nodes follow the rule for names of networks.
    match name.parse::<NetworkName>() {
        Ok(_) => Ok(name),
        Err(why) => Err(Error::config(format!(
            "{from}: {name:?} can't name a node: {why}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(json: &str) -> Result<String, String> {
        node_name(&serde_json::from_str(json).unwrap()).map_err(|error| error.msg)
    }

    #[test]
    fn the_hosts_name_is_the_default() {
        assert_eq!(
            name(r#"{"node":"worker-7.example.org"}"#).unwrap(),
            "worker-7.example.org"
        );
        assert_eq!(name("{}").unwrap(), uname().nodename().to_str().unwrap());
        assert_eq!(name(r#"{"node":""}"#), name("{}"));
    }

    #[test]
    fn a_name_that_would_lead_to_another_key_is_refused() {
        for bad in ["a/b", "..", "a b", "-a"] {
            let error = name(&format!(r#"{{"node":"{bad}"}}"#)).unwrap_err();
            assert!(
                error.starts_with(&format!("ipam.node: {bad:?} can't name a node: ")),
                "{error}"
            );
        }
    }
}
