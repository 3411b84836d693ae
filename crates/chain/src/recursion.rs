//! Refuses a chain that would call itself.

use cni::{CHAIN_CALL, DelegateName, Environment, Error, ROLLBACK};

use crate::plugins::Plugins;

/// Refuses a call from within a context, and a chain that lists its own executable under
/// whatever name.
///
/// # Errors
///
/// Code 7, naming the delegate.
pub(crate) fn refuse(
    environment: &Environment,
    delegates: &[DelegateName],
    plugins: &Plugins<'_>,
) -> Result<(), Error> {
    if environment.get(CHAIN_CALL).is_some() || environment.get(ROLLBACK).is_some() {
        return Err(Error::config(
            "ipam.delegates: a delegate has called ipam-delegated back; a chain can't be its own link",
        ));
    }
    for (i, name) in delegates.iter().enumerate() {
        if let Some(path) = plugins.chain_itself(name) {
            return Err(Error::config(format!(
                "ipam.delegates[{i}]: {:?} is ipam-delegated itself ({}); a chain can't be its own link",
                name.as_str(),
                path.display()
            )));
        }
    }
    Ok(())
}
