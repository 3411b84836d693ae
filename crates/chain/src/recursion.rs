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
    let is_set = |name: &&str| environment.get(name).is_some();
    if let Some(name) = [CHAIN_CALL, ROLLBACK].into_iter().find(is_set) {
        return Err(Error::config(format!(
            "ipam.delegates: a delegate has called ipam-delegated back ({name} is set); a chain can't be its own link",
        )));
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
