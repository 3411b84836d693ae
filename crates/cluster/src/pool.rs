//! Pools that the engine defines.

pub(crate) mod asked;
pub(crate) mod defined_pools;
pub(crate) mod definition;
pub(crate) mod known_definitions;

use cni::{Error, Object};

/// True if the chain has a delegate before this one. Its pools may depend on the container, so
/// they are unknown on STATUS.
///
/// # Errors
///
/// Code 7 if `ipam.delegates` isn't a list of names.
pub(crate) fn has_selector(ipam: &Object, plugin: &str) -> Result<bool, Error> {
    let delegates: Option<Vec<String>> = ipam.read("ipam", "delegates")?;
    let first = delegates.unwrap_or_default().into_iter().next();
    Ok(first.is_some_and(|first| first != plugin))
}
