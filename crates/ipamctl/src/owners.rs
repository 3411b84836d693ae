//! Addresses of owners that nobody needs any more: proven by the cluster's objects.

use cluster::{Held, StoreError};
use kubernetes::{Kubernetes, OwnedState};

use crate::output::warn;

/// Those of these addresses whose owner has no object and that no pod names. What can't be told is
/// named on stderr, and isn't among them.
///
/// # Errors
///
/// Those of the store.
pub(crate) fn without_object(
    store: &mut Kubernetes<'_>,
    owned: Vec<Held>,
) -> Result<Vec<Held>, StoreError> {
    let states = store.owned_states(&owned)?;
    let both = owned.into_iter().zip(states);
    let gone = both.filter_map(|(held, state)| match state {
        OwnedState::Gone => Some(held),
        OwnedState::Used => None,
        OwnedState::Unknown(why) => {
            warn(format!("{} is kept, {}: {why}", held.key, held.describe()));
            None
        }
    });
    Ok(gone.collect())
}
