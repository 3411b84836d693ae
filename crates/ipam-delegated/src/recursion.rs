//! A chain that would call itself is refused before anything runs.

use cni::{Call, DelegateName, Error};

use crate::executables::Executables;
use crate::orphans::CALL;

/// Refuses a call from within a chain, and a chain in which we are a delegate
/// ourselves, under whatever name.
///
/// # Errors
///
/// Code 7, naming the delegate.
pub(crate) fn refuse(
    call: &Call<'_>,
    delegates: &[DelegateName],
    executables: &Executables<'_>,
) -> Result<(), Error> {
    if call.variable(CALL).is_some() {
        return Err(Error::config(
            "ipam.delegates: a delegate has called ipam-delegated back; a chain can't be its own link",
        ));
    }
    for (i, name) in delegates.iter().enumerate() {
        if let Some(path) = executables.ourselves(name) {
            return Err(Error::config(format!(
                "ipam.delegates[{i}]: {:?} is ipam-delegated itself ({}); a chain can't be its own link",
                name.as_str(),
                path.display()
            )));
        }
    }
    Ok(())
}
