//! Finds violations of the rules in the history of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::{Address, Command, Hold, Observation, Operation, Outcome};

/// A violation of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two attachments had one address at one time.
    HeldTwice(Hold, Hold),
    /// A second ADD succeeded for an attachment that had not been deleted.
    AddedTwice(String),
    /// A living attachment's address isn't reserved.
    Missing(Hold, Duration),
    /// A living attachment's address is reserved for another attachment.
    Foreign(Hold, String, Duration),
    /// An address is still reserved for an attachment whose DEL has succeeded.
    NotReleased(Hold, Duration),
    /// After GC, an address is reserved for somebody who has no right to it.
    LeftBehind(Address, String),
    /// An address is reserved, and DEL and GC don't find it: a leak.
    NotIndexed(Address, String),
    /// DEL and GC find an address that isn't reserved for the attachment.
    OnlyIndexed(Address, String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldTwice(one, other) => write!(f, "one address twice: {one}; {other}"),
            Self::AddedTwice(attachment) => write!(f, "two ADDs of {attachment} succeeded"),
            Self::Missing(hold, at) => write!(f, "{hold}; at {at:.3?}, nobody has it"),
            Self::Foreign(hold, holder, at) => write!(f, "{hold}; at {at:.3?}, {holder} has it"),
            Self::NotReleased(hold, at) => {
                write!(f, "{hold}; at {at:.3?}, after DEL, it still has it")
            }
            Self::LeftBehind(address, holder) => {
                write!(f, "{address} is still reserved for {holder} after GC")
            }
            Self::NotIndexed(address, holder) => {
                write!(f, "no DEL and no GC of {holder} finds {address}")
            }
            Self::OnlyIndexed(address, holder) => {
                write!(f, "{holder} is said to have {address}, which isn't so")
            }
        }
    }
}

/// Attachments with a second successful ADD, and no DEL between the two.
pub(super) fn added_twice<'a>(calls: impl Iterator<Item = &'a Vec<Operation>>) -> Vec<Violation> {
    let twice = |calls: &&Vec<Operation>| {
        let mut is_there = false;
        calls.iter().any(|call| match call.command {
            Command::Add(Outcome::Succeeded(_)) => std::mem::replace(&mut is_there, true),
            Command::Add(Outcome::Open) => false,
            Command::Del(_) => {
                is_there = false;
                false
            }
        })
    };
    let twice = calls.filter(twice);
    twice
        .map(|calls| Violation::AddedTwice(calls[0].attachment.clone()))
        .collect()
}

/// Addresses that two attachments surely had at the same time.
///
/// This finds every history that a correct allocator can't produce. If no two sure times of an
/// address overlap, a correct allocator can produce the history: the attachments take the address
/// in the order of their sure times, and each releases it at the start of its first DEL.
pub(super) fn held_twice(holds: &[Hold]) -> Vec<Violation> {
    let mut by_address: BTreeMap<&Address, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        by_address.entry(&hold.address).or_default().push(hold);
    }
    let mut found = Vec::new();
    for holds in by_address.values_mut() {
        let until = |hold: &Hold| hold.surely_until.unwrap_or(Duration::MAX);
        holds.sort_by_key(|hold| (hold.surely_from, until(hold)));
        let mut longest: Option<&Hold> = None;
        for &hold in &*holds {
            if let Some(longest) = longest
                && until(longest) > hold.surely_from
            {
                found.push(Violation::HeldTwice(longest.clone(), hold.clone()));
            }
            if longest.is_none_or(|other| until(other) < until(hold)) {
                longest = Some(hold);
            }
        }
    }
    found
}

/// Addresses that aren't reserved for their attachments, although these lived during the whole
/// observation.
pub(super) fn missing(holds: &[Hold], observation: &Observation) -> Vec<Violation> {
    let mut holders: BTreeMap<&Address, Vec<&str>> = BTreeMap::new();
    for (address, holder) in &observation.addresses {
        holders.entry(address).or_default().push(holder);
    }
    let mut found = Vec::new();
    for hold in holds {
        // Of two events at the same time, either may be the first.
        let lives = hold.surely_from < observation.started
            && hold
                .surely_until
                .is_none_or(|time| time > observation.ended);
        let there = holders.get(&hold.address).map_or(&[][..], Vec::as_slice);
        if !lives || there.contains(&hold.attachment.as_str()) {
            continue;
        }
        found.push(match there.first() {
            Some(&other) => Violation::Foreign(hold.clone(), other.to_owned(), observation.started),
            None => Violation::Missing(hold.clone(), observation.started),
        });
    }
    found
}

/// Addresses that are reserved for an attachment whose DEL had succeeded before the observation
/// began, and that had no other ADD before it ended.
///
/// An ADD that failed isn't judged: its creation may come after the DEL.
pub(super) fn not_released(holds: &[Hold], observation: &Observation) -> Vec<Violation> {
    if !observation.sent_once {
        return Vec::new();
    }
    let there: BTreeSet<(&Address, &str)> = observation
        .addresses
        .iter()
        .map(|(address, holder)| (address, holder.as_str()))
        .collect();
    let released = holds.iter().filter(|hold| {
        let until = hold.possibly_until;
        until.is_some_and(|until| until < observation.started)
            && hold.next_add.is_none_or(|again| again > observation.ended)
    });
    released
        .filter(|hold| there.contains(&(&hold.address, hold.attachment.as_str())))
        .map(|hold| Violation::NotReleased(hold.clone(), observation.started))
        .collect()
}

/// After GC, addresses that are reserved for an attachment without a successful ADD for
/// them, or with a DEL that was called.
pub(super) fn left_behind(holds: &[Hold], observation: &Observation) -> Vec<Violation> {
    if !observation.collected {
        return Vec::new();
    }
    let living = holds.iter().filter(|hold| hold.surely_until.is_none());
    let living: BTreeSet<(&Address, &str)> = living
        .map(|hold| (&hold.address, hold.attachment.as_str()))
        .collect();
    let keys = observation.addresses.iter();
    keys.filter(|(address, holder)| !living.contains(&(address, holder.as_str())))
        .map(|(address, holder)| Violation::LeftBehind(address.clone(), holder.clone()))
        .collect()
}

/// Differences between the reserved addresses and the index of DEL and GC.
pub(super) fn index_differs(observation: &Observation) -> Vec<Violation> {
    let Some(index) = &observation.index else {
        return Vec::new();
    };
    let reserved: BTreeSet<_> = observation.addresses.iter().collect();
    let indexed: BTreeSet<_> = index.iter().collect();
    let not_indexed = reserved.difference(&indexed);
    let only_indexed = indexed.difference(&reserved);
    not_indexed
        .map(|(address, holder)| Violation::NotIndexed(address.clone(), holder.clone()))
        .chain(
            only_indexed
                .map(|(address, holder)| Violation::OnlyIndexed(address.clone(), holder.clone())),
        )
        .collect()
}
