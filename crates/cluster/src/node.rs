//! The name of this node in the cluster.

use cni::{Error, NetworkName, Object};
use rustix::system::uname;

/// `ipam.node`; without it, the host's name.
///
/// # Errors
///
/// Code 7, naming the key and the value: a name that could not be a part of a key.
pub fn node_name(ipam: &Object) -> Result<String, Error> {
    let configured: Option<String> = ipam.read("ipam", "node")?;
    let (name, from) = match configured.filter(|it| !it.is_empty()) {
        Some(name) => (name, "ipam.node"),
        None => (
            uname().nodename().to_string_lossy().into_owned(),
            "ipam.node is missing, and the host's name",
        ),
    };
    // The same rule as for names of networks.
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
    fn the_hosts_name_stands_in_for_a_missing_one() {
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
