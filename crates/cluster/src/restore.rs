//! Claims again what records say, after a store was restored from an older state, and what another IPAM
//! plugin has given, when a pool is taken over from it. [`reconcile`] reads one record, [`restore`]
//! claims one address; nothing is released.

use std::net::IpAddr;
use std::time::SystemTime;

use cni::{Args, Attachment, Error, IpamResult, NetworkName, Object, code};
use ipam::{Overflow, overflow};
use serde_json::value::RawValue;

use crate::pools::complete_all;
use crate::repetition::{read_one, until_answered};
use crate::{AddressKey, CallAttachment, Claim, Held, Holder, Node, Owner, Store, rfc3339};

/// An address that a record, or another IPAM plugin, says is an attachment's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its space and IP address.
    pub key: AddressKey,
    /// The attachment with its node and its machine, or the owner.
    pub holder: Holder,
}

/// Outcome of [`restore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The store has it for this holder.
    Ours,
    /// It was free, and is claimed now.
    Claimed,
    /// Another one has it.
    Taken(Box<Held>),
}

/// An attachment as its record describes it.
#[derive(Clone, Copy, Debug)]
pub struct RecordedAdd<'a> {
    /// Name of the CNI network.
    pub network: &'a str,
    /// Container and interface.
    pub attachment: &'a Attachment,
    /// `CNI_ARGS` of the ADD.
    pub args: &'a Args,
    /// Time of the ADD.
    pub since: SystemTime,
    /// `prevResult` of the allocator's ADD, with the pools; `None` if it was the first delegate.
    pub given: Option<&'a RawValue>,
    /// The allocator's answer; `None` if it isn't recorded.
    pub answer: Option<&'a RawValue>,
}

/// Claims the addresses of an ADD again: the allocator has appended one for each pool. No definition is
/// needed: an address is its own name. Only the address space of a pool is in its definition. May be
/// repeated.
///
/// # Errors
///
/// Code 7 if the record's pools are invalid; those of the store.
pub fn reconcile(
    store: &mut dyn Store,
    node: &Node,
    add: &RecordedAdd<'_>,
) -> Result<Vec<(Remembered, Restored)>, Error> {
    let answer = add
        .answer
        .ok_or_else(|| Error::config("the allocator's answer is missing"))?;
    let answer = IpamResult::read("answer", answer)?;
    let given = add.given.map(|raw| IpamResult::read("prevResult", raw));
    let given = given.transpose()?.unwrap_or_default();
    let entries = ipam::Pools::of_result(&given)?.into_entries();
    let own = answer.ips.iter().skip(given.ips.len());
    let mut all = Vec::new();
    for (place, (entry, config)) in entries.into_iter().zip(own).enumerate() {
        let ip = config.ip();
        let owner: Option<String> = entry.read("pools", "owner")?;
        let entry = pool_of(store, entry, ip)?;
        let name: Option<String> = entry.read("pools", "name")?;
        let space = match (entry.read("pools", "space")?, &name) {
            (None, Some(name)) if !ipam::Pool::has_ranges(&entry) => space_of(store, name)?,
            (space, _) => space,
        };
        let pool = name.unwrap_or_else(|| add.network.to_owned());
        let (network, attachment) = (add.network, add.attachment);
        let own = CallAttachment::new(node, network, attachment);
        let holder = match owner.filter(|name| !name.is_empty()) {
            Some(name) => {
                Holder::of_owner(Owner { name, place }, network, &attachment.ifname, &pool)
            }
            None => Holder::new(own, &pool, add.args),
        };
        let (key, since) = (AddressKey { space, ip }, rfc3339(add.since));
        let holder = Holder { since, ..holder };
        let remembered = Remembered { key, holder };
        let restored = restore(store, &remembered)?;
        all.push((remembered, restored));
    }
    Ok(all)
}

/// The pool of an entry that has given an address: the entry itself, or one of its `or`. Without
/// readable definitions, the entry itself.
///
/// # Errors
///
/// Those of the store.
fn pool_of(store: &mut dyn Store, entry: Object, ip: IpAddr) -> Result<Object, Error> {
    let or = overflow::objects("pools", &entry)?;
    if or.is_empty() {
        return Ok(entry);
    }
    let mut completed = entry.clone();
    let read = complete_all(store, &mut completed, "pools")
        .and_then(|()| Overflow::read("pools", completed));
    let at = match read {
        Err(error) if error.code == code::INVALID_CONFIG => {
            tracing::warn!(%error, %ip, "taken as an address of the first pool");
            None
        }
        read => read?.all().iter().position(|pool| pool.ranges.contains(ip)),
    };
    let of_or = at.and_then(|at| or.into_iter().nth(at.checked_sub(1)?));
    Ok(of_or.unwrap_or(entry))
}

/// The address space in a pool's definition; none without a definition.
fn space_of(store: &mut dyn Store, pool: &str) -> Result<Option<NetworkName>, Error> {
    let definition = until_answered(store, |store| store.pool(pool))?;
    match definition {
        Some(definition) => definition.read(&store.path_of_pool(pool), "space"),
        None => {
            tracing::warn!(pool, "the pool isn't defined: taken as one without a space");
            Ok(None)
        }
    }
}

/// Claims an address again. May be repeated.
///
/// # Errors
///
/// Those of the store.
pub fn restore(store: &mut dyn Store, remembered: &Remembered) -> Result<Restored, Error> {
    let Remembered { key, holder } = remembered;
    loop {
        // A container has this address, whatever else its owner has.
        let claim = until_answered(store, |store| store.claim(key, holder, u64::MAX))?;
        if let Claim::Created { .. } = claim {
            return Ok(Restored::Claimed);
        }
        let Some(held) = read_one(store, key)? else {
            // It was released meanwhile.
            continue;
        };
        return Ok(match held.is_of(holder) {
            true => Restored::Ours,
            false => Restored::Taken(Box::new(held)),
        });
    }
}
