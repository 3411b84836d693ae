use cni::{Error, Object};
use rustix::system::uname;

/// The name of this node, and the key or the file that it is from, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    /// The name.
    pub name: String,
    /// Its source, such as `ipam.node`.
    pub source: &'static str,
}

/// The name of this node: `ipam.node`, or else the host's name.
///
/// # Errors
///
/// Code 7 if `ipam.node` is no text.
pub fn node_name(ipam: &Object) -> Result<NodeName, Error> {
    let configured: Option<String> = ipam.read("ipam", "node")?;
    Ok(match configured.filter(|name| !name.is_empty()) {
        Some(name) => NodeName {
            name,
            source: "ipam.node",
        },
        None => NodeName {
            name: uname().nodename().to_string_lossy().into_owned(),
            source: "ipam.node is missing, and the host's name",
        },
    })
}
