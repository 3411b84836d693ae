//! Repeats a request until it is answered, or until the time is up. The rules send all of their
//! requests through [`until_answered`], so only here one is repeated.

use std::slice;
use std::time::Duration;

use crate::{AddressKey, Held, Kind, Selection, Store, StoreError};

/// Number of addresses that are read together. Some are released before the next ones are read, so
/// that a call whose time is up has got on.
pub(crate) const READ_AT_ONCE: usize = 20;

/// The first wait before a repetition; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest wait before a repetition.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Sends a request, again and again as long as another attempt may succeed.
///
/// # Errors
///
/// The last failure, if the time is up or the call is cancelled.
pub fn until_answered<S: Store + ?Sized, T>(
    store: &mut S,
    mut request: impl FnMut(&mut S) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    store.time().start_request();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match request(store) {
            Err(error) if error.may_pass() => error,
            answered => return answered,
        };
        tracing::debug!(%error, "this request is repeated");
        if !store.time().pause(pause) {
            return Err(match store.time().is_cancelled() {
                true => StoreError::new(Kind::Cancelled, format!("cancelled: {}", error.msg)),
                false => error,
            });
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Reads one address; `None` if it is free.
pub(crate) fn read_one(
    store: &mut dyn Store,
    key: &AddressKey,
) -> Result<Option<Held>, StoreError> {
    let held = until_answered(store, |store| store.read(slice::from_ref(key)))?;
    Ok(held.into_iter().next())
}

/// The addresses of a node, on any machine.
///
/// # Errors
///
/// Those of the store.
pub fn of_node(store: &mut dyn Store, node: &str) -> Result<Vec<Held>, StoreError> {
    let mut all = read_listed(store, &Selection::Node(node))?;
    let is_of_node = |held: &Held| held.holder.as_ref().is_some_and(|of| of.node == node);
    all.retain(is_of_node);
    Ok(all)
}

/// Lists addresses, and reads each.
pub(crate) fn read_listed(
    store: &mut dyn Store,
    selection: &Selection<'_>,
) -> Result<Vec<Held>, StoreError> {
    let keys = until_answered(store, |store| store.list(selection))?;
    let mut all = Vec::new();
    for some in keys.chunks(READ_AT_ONCE) {
        all.extend(until_answered(store, |store| store.read(some))?);
    }
    Ok(all)
}
