//! Sources of pools and rules: the network configuration, and the files of `ipam.poolsDir`.

use cni::{Error, Object};

/// The keys of a file of `poolsDir`. The `ipam` section has others as well.
const KEYS: [&str; 2] = ["pools", "rules"];

/// The pools and rules of one source.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The prefix of its keys in messages: `ipam.`, or `/etc/cni/ipam.d/db.json: `.
    pub(crate) prefix: String,
    /// The pools.
    pub(crate) pools: Object,
    /// The rules.
    pub(crate) rules: Vec<Object>,
}

impl Source {
    /// Reads the keys `pools` and `rules` of the `ipam` section.
    pub(crate) fn of_configuration(ipam: &Object) -> Result<Self, Error> {
        Self::read("ipam.".to_owned(), ipam)
    }

    /// Reads a file, of which these are its path and content.
    pub(crate) fn of_file(path: &str, content: &[u8]) -> Result<Self, Error> {
        let object: Object = serde_json::from_slice(content)
            .map_err(|why| Error::config(format!("{path}: no valid JSON object: {why}")))?;
        let unknown = object.keys().find(|key| !KEYS.contains(key));
        if let Some(key) = unknown {
            return Err(Error::config(format!(
                "{path}: {key} is unknown; a file has pools and rules"
            )));
        }
        Self::read(format!("{path}: "), &object)
    }

    fn read(prefix: String, object: &Object) -> Result<Self, Error> {
        let of = |key: &str| format!("{prefix}{key}");
        for key in KEYS {
            if object.keys().filter(|name| *name == key).count() > 1 {
                return Err(Error::config(format!("{} occurs twice", of(key))));
            }
        }
        Ok(Self {
            pools: read(&of("pools"), object, "pools")?.unwrap_or_default(),
            rules: read(&of("rules"), object, "rules")?.unwrap_or_default(),
            prefix,
        })
    }
}

/// Reads a key's value; messages use this name.
fn read<T: serde::de::DeserializeOwned>(
    path: &str,
    object: &Object,
    key: &str,
) -> Result<Option<T>, Error> {
    let raw = object.get(key).filter(|raw| raw.get() != "null");
    raw.map(|raw| cni::read(path, raw)).transpose()
}
