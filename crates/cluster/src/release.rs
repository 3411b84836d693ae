//! DEL and GC: release addresses of an attachment, or of all attachments that aren't valid.
//!
//! Each address is read, judged ([`Verdict`]), and released only if it is still the creation that was
//! read. DEL begins with the addresses of `prevResult`, and lists what the store has if these were
//! fewer than the pools, or if there are no pools; a rollback releases only what `prevResult` names.
//! One failure doesn't keep the others, unless the store is away: the next request would fail as well.

use std::collections::HashSet;

use cni::{Attachment, Call, Error, IpConfig, NetworkConfig, ROLLBACK, code};
use ipam::{Pools, prev_ips};

use crate::pools::spaces;
use crate::repetition::{READ_AT_ONCE, until_answered};
use crate::{AddressKey, CallAttachment, Held, Holder, Node, Release, Selection, Store};

/// Releases the attachment's addresses: those of `prevResult`, and if these are fewer than its
/// pools, those that the store lists. In a rollback, only those of `prevResult`: what else the
/// attachment holds is an earlier ADD's. An owner's address stays, and counts as released.
///
/// # Errors
///
/// Code 112 if the attachment has an address under another node's name, or another machine's ID: the
/// node was renamed, or its `/etc/machine-id` has changed. Those of the store.
pub fn del(
    store: &mut dyn Store,
    node: &Node,
    attachment: &Attachment,
    call: &Call<'_>,
) -> Result<(), Error> {
    let config = &call.config;
    let own = CallAttachment::new(node, config.name().as_str(), attachment);
    let judge = |held: &Held| judge(held, own);
    let prev_ips = prev_ips(config);
    let mut releases = Releases::default();
    releases.of_keys(store, &keys(config, &prev_ips), judge)?;
    let is_rollback = !call.environment.text(ROLLBACK).is_empty();
    let expected = match is_rollback {
        true => prev_ips.len(),
        false => Pools::to_release(config).entries().len(),
    };
    // Without pools, their number isn't known.
    let is_known = is_rollback || expected > 0;
    let has_all = is_known && releases.settled() >= expected;
    if has_all || releases.is_store_away {
        return releases.outcome();
    }
    let selection = Selection::Attachment(own);
    let mut listed = until_answered(store, |store| store.list(&selection))?;
    if is_rollback {
        listed.retain(|key| prev_ips.iter().any(|ip| ip.ip() == key.ip));
    }
    releases.of_keys(store, &listed, judge)?;
    releases.outcome()
}

/// What a DEL or GC does with an address.
enum Verdict {
    Release,
    Keep,
    /// It stays, and isn't searched for.
    KeepForOwner,
}

/// What a DEL of this attachment does with an address.
///
/// # Errors
///
/// It is the attachment's, on another node or machine.
fn judge(held: &Held, own: CallAttachment<'_>) -> Result<Verdict, Error> {
    match &held.holder {
        _ if own.holds(held) => Ok(Verdict::Release),
        _ if own.may_share(held) => Ok(Verdict::KeepForOwner),
        Some(holder) if holder.is_attachment(own.network, own.attachment) => {
            Err(of_another_node(held, holder, own.node))
        }
        _ => Ok(Verdict::Keep),
    }
}

/// The error for an address of this attachment that another node, or another machine, has claimed.
fn of_another_node(held: &Held, holder: &Holder, node: &Node) -> Error {
    let machine = |machine: &Option<String>| match machine {
        Some(machine) => format!(", machine {machine}"),
        None => String::new(),
    };
    let (key, other) = (&held.key, &holder.node);
    let (its_machine, own_machine) = (machine(&holder.machine), machine(&node.machine));
    let node = &node.name;
    let why = format!(
        "{key} is {holder}{its_machine}, and this is node {node}{own_machine}: \
         ipamctl node-forget {other} releases it"
    );
    Error::new(code::NOT_RESERVED, why)
}

/// Releases the addresses of this network, node and machine whose attachments aren't valid.
///
/// # Errors
///
/// Those of the store.
pub fn gc(store: &mut dyn Store, node: &Node, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let network = config.name().as_str();
    let valid: HashSet<Attachment> = config.valid_attachments()?.into_iter().collect();
    let selection = Selection::Stale {
        node: &node.name,
        network,
        valid: &valid,
    };
    let listed = until_answered(store, |store| store.list(&selection))?;
    let valid: HashSet<(&str, &str)> = valid
        .iter()
        .map(|attachment| (attachment.container_id.as_str(), attachment.ifname.as_str()))
        .collect();
    let is_stale = |holder: &Holder| {
        let attachment = (&*holder.container_id, &*holder.ifname);
        holder.is_on(node) && holder.network == network && !valid.contains(&attachment)
    };
    let mut releases = Releases::default();
    releases.of_keys(store, &listed, |held| {
        Ok(match held.holder.as_ref().is_some_and(is_stale) {
            true => Verdict::Release,
            false => Verdict::Keep,
        })
    })?;
    releases.outcome()
}

/// Releases these addresses, each if it is still this creation of its name, and passes on each when it
/// is released. What one failure names doesn't keep the others, unless the store is away.
///
/// # Errors
///
/// All failures as one.
pub fn release_each(
    store: &mut dyn Store,
    all: &[Held],
    mut each: impl FnMut(&Held),
) -> Result<(), Error> {
    let mut releases = Releases::default();
    for held in all {
        let before = releases.released;
        releases.add(store, held);
        if releases.released > before {
            each(held);
        }
    }
    releases.outcome()
}

/// Releases of one call.
#[derive(Default)]
struct Releases {
    /// Number of released addresses.
    released: usize,
    /// Number of addresses that were named, and are an owner's.
    of_owners: usize,
    failures: Vec<Error>,
    /// True after a failure that the next request would have as well.
    is_store_away: bool,
}

impl Releases {
    /// Number of addresses that nobody needs to search for.
    fn settled(&self) -> usize {
        self.released + self.of_owners
    }

    /// Reads the addresses of these names, and does with each what `judge` says. Its error doesn't
    /// keep the others.
    fn of_keys(
        &mut self,
        store: &mut dyn Store,
        keys: &[AddressKey],
        judge: impl Fn(&Held) -> Result<Verdict, Error>,
    ) -> Result<(), Error> {
        for some in keys.chunks(READ_AT_ONCE) {
            for held in until_answered(store, |store| store.read(some))? {
                match judge(&held) {
                    Ok(Verdict::Release) => self.add(store, &held),
                    Ok(Verdict::Keep) => {}
                    Ok(Verdict::KeepForOwner) => self.of_owners += 1,
                    Err(error) => self.failures.push(error),
                }
            }
            if self.is_store_away {
                break;
            }
        }
        Ok(())
    }

    /// Releases an address, unless the store is away.
    fn add(&mut self, store: &mut dyn Store, held: &Held) {
        if self.is_store_away {
            return;
        }
        let mut was_lost = false;
        let release = until_answered(store, |store| {
            let answer = store.release(held);
            answer.inspect_err(|error| was_lost |= error.may_have_changed())
        });
        match release {
            // Without an answer to the first request, that one has released it.
            Ok(release) if release == Release::Released || was_lost => {
                held.log_release();
                self.released += 1;
            }
            Ok(_) => {}
            Err(error) => {
                self.is_store_away = error.may_pass() || error.may_have_changed();
                self.failures.push(error.into());
            }
        }
    }

    /// # Errors
    ///
    /// All failures as one.
    fn outcome(self) -> Result<(), Error> {
        tracing::debug!(addresses = self.released, "released in all");
        Error::all_as_one(self.failures)
    }
}

/// The names that these addresses can have, in each address space of the call's pools.
pub(crate) fn keys(config: &NetworkConfig, ips: &[IpConfig]) -> Vec<AddressKey> {
    let spaces = spaces(&Pools::to_release(config));
    let key = |ip: &IpConfig, space: &Option<cni::NetworkName>| AddressKey {
        space: space.clone(),
        ip: ip.ip(),
    };
    let of_ip = |ip| spaces.iter().map(move |space| key(ip, space));
    ips.iter().flat_map(of_ip).collect()
}
