use std::fs;

use cni::{Error, NetworkName, Object};
use ipam::{NodeName, node_name};

/// File with the ID of a machine, one line of hexadecimal digits (`man 5 machine-id`).
const MACHINE_ID: &str = "/etc/machine-id";

/// This node, as the configuration of a call describes it: its name in the cluster, and the ID of its
/// machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// ID of this machine. Two machines may have one name by mistake; neither releases the
    /// addresses of the other. `None` if the engine proves which node calls.
    pub machine: Option<String>,
}

impl Node {
    /// `ipam.node`, or else the host's name; without a machine.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for a name that can't be a part of a key.
    pub fn named(ipam: &Object) -> Result<Self, Error> {
        let NodeName { name, source } = node_name(ipam)?;
        // Names of nodes follow the rule for names of networks.
        match name.parse::<NetworkName>() {
            Ok(_) => Ok(Self {
                name,
                machine: None,
            }),
            Err(why) => Err(Error::config(format!(
                "{source}: {name:?} can't name a node: {why}"
            ))),
        }
    }

    /// As [`Self::named`], with the machine: `ipam.machine`, or else the content of
    /// `/etc/machine-id`.
    ///
    /// # Errors
    ///
    /// Code 7 if the machine has no ID, too.
    pub fn with_machine(ipam: &Object) -> Result<Self, Error> {
        let configured: Option<String> = ipam.read("ipam", "machine")?;
        let machine = match configured.filter(|machine| !machine.is_empty()) {
            Some(machine) => machine,
            None => machine_id().map_err(|why| {
                Error::config(format!(
                    "ipam.machine is missing, and {MACHINE_ID} can't stand in for it: {why}"
                ))
            })?,
        };
        Ok(Self {
            machine: Some(machine),
            ..Self::named(ipam)?
        })
    }
}

fn machine_id() -> Result<String, String> {
    let content = fs::read_to_string(MACHINE_ID).map_err(|error| error.to_string())?;
    let id = content.trim();
    // systemd writes "uninitialized" during the first boot.
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_id {
        true => Ok(id.to_owned()),
        false => Err(format!("it has no ID: {id:?}")),
    }
}
