//! The one judgement of an attachment, by its evidence: leaked, unknown, or in use. `leaks` shows it,
//! `gc` acts on it.
//!
//! A [`Judgement`] has proofs that nobody will release the attachment, and at most one reason to keep it:
//! a proof releases nothing beside such a reason. The evidence is its record with the network namespace,
//! the runtime's list if there is one, its age, and the lock of its record.

use std::collections::HashSet;
use std::fs::File;

use anyhow::Result;
use chain::record::{ListedRecord, Liveness, RecordState};
use cluster::AddressKey;

use crate::container_list::ContainerList;
use crate::inventory::{Inventory, NetworkAttachment, RowState};
use crate::local_node::LocalNode;
use crate::output::{joined, non_empty_or};

/// A proof that nobody will release an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Its name in JSON, which is documented.
    pub(crate) key: &'static str,
    /// The proof for people.
    pub(crate) text: String,
}

/// A reason not to release an attachment without a person's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Somebody uses it or releases it, or may be about to.
    InUse(String),
    /// Its network namespace is there. If no list names it, a crashed runtime may have left that.
    Alive(String),
    /// It is unknown whether somebody uses it.
    Unknown(String),
}

impl Keep {
    /// The reason for people.
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::InUse(reason) | Self::Alive(reason) => reason,
            Self::Unknown(reason) => format!("whether it is in use is unknown: {reason}"),
        }
    }
}

/// What is known of an attachment. It is a leak if there is a proof, and no reason to keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) proofs: Vec<Proof>,
    pub(crate) keep: Option<Keep>,
}

impl Judgement {
    /// True for a leak.
    pub(crate) fn is_leak(&self) -> bool {
        !self.proofs.is_empty() && self.keep.is_none()
    }

    fn add(&mut self, key: &'static str, text: impl Into<String>) {
        let text = text.into();
        self.proofs.push(Proof { key, text });
    }
}

pub(crate) struct Judge<'a> {
    node: &'a LocalNode,
    inventory: &'a Inventory,
    /// The list of the runtime's containers, if there is one.
    valid: Option<&'a ContainerList>,
    /// The addresses whose owners have no object any more; empty if nobody has asked.
    pub(crate) gone_owners: HashSet<AddressKey>,
}

impl<'a> Judge<'a> {
    /// A judge of these attachments.
    ///
    /// # Errors
    ///
    /// Those of [`ContainerList::refuse_wrong`].
    pub(crate) fn new(
        node: &'a LocalNode,
        inventory: &'a Inventory,
        all: &[NetworkAttachment<'_>],
        valid: Option<&'a ContainerList>,
    ) -> Result<Self> {
        valid.map_or(Ok(()), |list| list.refuse_wrong(all))?;
        Ok(Self {
            node,
            inventory,
            valid,
            gone_owners: HashSet::new(),
        })
    }

    /// True if the list, or a call that has begun, says that it is to be released.
    pub(crate) fn is_to_collect(&self, judgement: &Judgement) -> bool {
        let has_list = self.valid.is_some();
        let mut proofs = judgement.proofs.iter();
        proofs.any(|proof| match proof.key {
            "pending" => true,
            "netns-gone" | "other-addresses" => false,
            _ => has_list,
        })
    }

    pub(crate) fn judge(&self, attachment: &NetworkAttachment<'_>) -> Judgement {
        let Some(container) = attachment.container else {
            return self.judge_nameless(attachment);
        };
        let mut judgement = Judgement::default();
        if attachment.is_leftover() {
            let text = "the record of its attachment has other addresses; another plugin of the \
                        conflist may hold it";
            judgement.add("other-addresses", text);
            return judgement;
        }
        let is_pending = attachment.record.is_some_and(chain::is_unfinished);
        if is_pending {
            let call = match attachment.content().map(|record| record.state) {
                Some(RecordState::Deleting) => "a DEL",
                _ => "an ADD",
            };
            judgement.add("pending", format!("{call} has begun, and not ended"));
        }
        let valid = self.valid.filter(|_| !attachment.is_docker());
        let unlisting = valid.filter(|list| !list.contains(container));
        if unlisting.is_some() {
            judgement.add("not-valid", "not among the valid containers");
        }
        // A valid container may have been restarted with another namespace, and what has begun to end
        // isn't in use.
        let is_decided = is_pending || (valid.is_some() && unlisting.is_none());
        let gone = match refuse_others(attachment) {
            Ok(()) if !is_decided => self.gone(attachment),
            refused => refused.map(|()| None),
        };
        match gone {
            Err(keep) => judgement.keep = Some(keep),
            Ok(gone) => {
                if let Some(list) = unlisting {
                    let too_young = list.too_young(attachment.last_change(), gone.is_some());
                    judgement.keep = too_young.map(Keep::InUse);
                }
                if let Some(text) = gone {
                    judgement.add("netns-gone", text);
                }
            }
        }
        if judgement.is_leak() {
            let record = attachment.record;
            judgement.keep = record.and_then(lock_holders).map(Keep::Unknown);
        }
        judgement
    }

    /// The judgement of a reservation that names no container: it is one row.
    fn judge_nameless(&self, attachment: &NetworkAttachment<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        let row = attachment.addresses[0];
        let key = row.in_cluster.as_ref().map(|stored| &stored.held.key);
        let is_gone = key.is_some_and(|key| self.gone_owners.contains(key));
        match &row.owner {
            Some(owner) if is_gone => {
                let text = format!("the object of {owner} is gone, and no pod names the address");
                judgement.add("owner-gone", text);
            }
            Some(owner) => judgement.keep = Some(Keep::InUse(format!("it is {owner}'s"))),
            None if row.state == RowState::Torn => {
                judgement.add("torn", "its file is cut off, and names nobody");
            }
            None => judgement.keep = Some(Keep::Unknown("it can't be read".to_owned())),
        }
        judgement
    }

    /// The proof that its network namespace is gone, by its record. Without one, the list decides.
    ///
    /// # Errors
    ///
    /// The reason to keep it.
    fn gone(&self, attachment: &NetworkAttachment<'_>) -> Result<Option<String>, Keep> {
        let has_list = self.valid.is_some();
        let unknown = match attachment.record.map(|record| &record.content) {
            // Only the daemon can ask which of Docker's containers has an address.
            Some(Ok(_)) if attachment.is_docker() => {
                return Err(Keep::InUse("docker-ipam-delegated asks Docker".to_owned()));
            }
            _ if attachment.is_docker() => "Docker's, without a usable record".to_owned(),
            Some(Ok(content)) => match content.liveness() {
                Liveness::Gone(text) => return Ok(Some(text)),
                Liveness::Alive(reason) => return Err(Keep::Alive(reason)),
                Liveness::LetGo(_) | Liveness::Unproven(_) if has_list => return Ok(None),
                Liveness::LetGo(reason) => return Err(Keep::InUse(reason)),
                Liveness::Unproven(reason) | Liveness::Unknown(reason) => reason,
            },
            Some(Err(reason)) => format!("its record: {reason}"),
            None if has_list => {
                let network = attachment.network;
                let unread = self.inventory.unread_record_reason(self.node, network);
                return unread.map_or(Ok(None), |reason| Err(Keep::Unknown(reason)));
            }
            None => "no record, no netns to look at".to_owned(),
        };
        Err(Keep::Unknown(unknown))
    }
}

/// Refuses what somebody else releases.
fn refuse_others(attachment: &NetworkAttachment<'_>) -> Result<(), Keep> {
    let mut stored = attachment.addresses.iter();
    let foreign_holder = stored.find_map(|row| row.in_cluster.as_ref()?.foreign_holder());
    if let Some(reason) = foreign_holder.or_else(|| attachment.duplicate_records()) {
        return Err(Keep::Unknown(reason));
    }
    match attachment.endpoint.map(|record| &record.content) {
        None => Ok(()),
        Some(Ok(_)) => Err(Keep::InUse("docker-ipam-delegated undoes it".to_owned())),
        Some(Err(reason)) => Err(Keep::Unknown(format!(
            "the record of Docker's endpoint: {reason}"
        ))),
    }
}

/// The processes that hold the lock of a record, as a reason to keep it; `None` if it is free.
fn lock_holders(record: &ListedRecord) -> Option<String> {
    match chain::record::is_locked(&record.file) {
        Ok(false) => return None,
        Ok(true) => {}
        Err(error) => return Some(format!("whether its lock is held is unknown: {error}")),
    }
    let found = File::open(&record.file).and_then(|file| chain::lock_holders(&file));
    let processes = found.into_iter().flatten();
    let named = processes.map(|process| format!("process {process}"));
    let unseen = "a process that can't be seen from here";
    let holders = non_empty_or(joined(named, ", "), unseen);
    Some(format!("its lock is held by {holders}"))
}
