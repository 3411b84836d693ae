//! CHECK: verifies that the attachment's addresses are still claimed for it, or for its pools' owner.
//! If a pool's definition is missing or invalid now, it is enough that the attachment has one address.

use cni::{Attachment, Call, Error, NetworkConfig, code};
use ipam::prev_ips;

use crate::pools::CallPools;
use crate::release::keys;
use crate::repetition::{READ_AT_ONCE, read_one, until_answered};
use crate::{CallAttachment, Held, Node, Selection, Store};

/// Verifies that every address of `prevResult` that is in a pool is claimed for the attachment, or
/// for the pool's owner, and that the attachment has an address at all.
///
/// # Errors
///
/// Code 112 if an address isn't claimed for them; those of the store.
pub fn check(
    store: &mut dyn Store,
    node: &Node,
    attachment: &Attachment,
    call: &Call<'_>,
) -> Result<(), Error> {
    let config = &call.config;
    let own = CallAttachment::new(node, config.name().as_str(), attachment);
    if config.prev_result()?.is_none() {
        return Err(Error::config(
            "prevResult is missing: CHECK compares with it",
        ));
    }
    let ips = prev_ips(config);
    let pools = match CallPools::read(store, config) {
        // A missing or invalid definition releases no address.
        Err(error) if error.code == code::INVALID_CONFIG => {
            tracing::warn!(%error, "going on without the pools' definitions");
            Vec::new()
        }
        read => read?,
    };
    let mut is_any_in_pools = false;
    for config in &ips {
        let mut pools = pools.iter().flat_map(CallPools::all);
        let Some(pool) = pools.find(|pool| pool.pool.ranges.contains(config.ip())) else {
            continue;
        };
        is_any_in_pools = true;
        let (key, owner) = (pool.key(config.ip()), pool.owner(&attachment.ifname));
        let held = read_one(store, &key)?;
        let is_ours = |held: &Held| match &owner {
            Some(owner) => held.is_of(owner),
            None => own.holds(held),
        };
        if !held.as_ref().is_some_and(is_ours) {
            let state = held.map_or("free".to_owned(), |held| held.describe());
            let place = store.path_of_address(&key);
            let holder = owner.as_ref().and_then(|holder| holder.owner.as_ref());
            let holder = holder.map_or(attachment.to_string(), |owner| owner.name.clone());
            let why = format!("{place} should be reserved to {holder}, and is {state}");
            return Err(Error::new(code::NOT_RESERVED, why));
        }
    }
    if is_any_in_pools || has_any(store, own, config)? {
        return Ok(());
    }
    let (network, node) = (own.network, &node.name);
    let why = format!("no address is reserved to {attachment} on network {network} by node {node}");
    Err(Error::new(code::NOT_RESERVED, why))
}

/// True if the attachment has an address: one of `prevResult`, which may be an owner's, or another
/// one. For a CHECK without pools.
fn has_any(
    store: &mut dyn Store,
    own: CallAttachment<'_>,
    config: &NetworkConfig,
) -> Result<bool, Error> {
    let selection = Selection::Attachment(own);
    let mut keys = keys(config, &prev_ips(config));
    keys.extend(until_answered(store, |store| store.list(&selection))?);
    for some in keys.chunks(READ_AT_ONCE) {
        let held = until_answered(store, |store| store.read(some))?;
        let is_ours = |held: &Held| own.holds(held) || own.may_share(held);
        if held.iter().any(is_ours) {
            return Ok(true);
        }
    }
    Ok(false)
}
