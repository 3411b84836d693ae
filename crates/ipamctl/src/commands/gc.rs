//! `ipamctl gc`: repeats the DELs that have failed and undoes the ADDs that never ended; with a list
//! of the runtime's containers, releases what it doesn't name.
//!
//! Each attachment is released by a DEL through its chain. The command GC is not sent: a delegate
//! would release everything that isn't in the list, including a container whose ADD began after the
//! list was made.

use std::collections::HashSet;

use anyhow::Result;
use chain::WhenBusy;
use chain::record::AttachmentRecord;
use cni::code::TRY_AGAIN_LATER;

use crate::Context;
use crate::arguments::GcArguments;
use crate::container_list::ContainerList;
use crate::evidence::{Judge, Keep};
use crate::inventory::{Inventory, NetworkAttachment, NodeScope, Row, attachments};
use crate::release::{AttachmentOutcome, GC_TIME_LIMIT, Outcome, print, release, release_command};

pub(crate) fn run(arguments: &GcArguments, context: &Context<'_>) -> Result<bool> {
    let list = &arguments.list;
    let node = &context.node();
    let valid = ContainerList::read(list, context)?;
    let inventory = Inventory::read(node, NodeScope::ThisNode);
    let mut all = attachments(&inventory.rows);
    // One whose engine never answers keeps no other one of its network waiting for ever.
    all.sort_by_key(|attachment| {
        let record = attachment.record;
        (record.is_none(), record.and_then(|record| record.changed))
    });
    for name in &arguments.network {
        inventory.refuse_unknown_name(node, name)?;
    }
    let judge = Judge::new(node, &inventory, &all, valid.as_ref())?;
    let mut outcomes = Vec::new();
    // Networks whose engine didn't answer: it would be asked again and again.
    let mut away = HashSet::new();
    let judgements = state_files::in_threads(&all, |attachment| judge.judge(attachment));
    for (attachment, judgement) in all.iter().zip(judgements) {
        let network = attachment.network;
        let wanted = &arguments.network;
        let is_wanted = wanted.is_empty() || wanted.iter().any(|name| name == network);
        if !is_wanted || !judge.is_to_collect(&judgement) {
            continue;
        }
        let result = if let Some(keep) = judgement.keep {
            let is_alive = matches!(keep, Keep::Alive(_));
            let mut reason = keep.into_reason();
            if is_alive {
                let command = release_command(&context.sources.command(), attachment);
                reason = format!("{reason}. If the container is gone: {command}");
            }
            Outcome::Kept { reason }
        } else if arguments.dry_run {
            Outcome::WouldRelease
        } else if away.contains(network) {
            let reason = "an engine of its network is away; the next gc tries again".to_owned();
            Outcome::Kept { reason }
        } else {
            let refuse = |record: Option<&AttachmentRecord>| changed(attachment, record);
            let released = release(node, attachment, WhenBusy::Refuse, GC_TIME_LIMIT, refuse);
            let error = released.as_ref().err();
            let code = error.and_then(|error| error.downcast_ref::<cni::Error>());
            if code.is_some_and(|error| error.code == TRY_AGAIN_LATER) {
                away.insert(network);
            }
            released.unwrap_or_else(|error| Outcome::failed(&error))
        };
        outcomes.push(AttachmentOutcome { attachment, result });
    }
    print(&outcomes, context)?;
    inventory.verdict(false)
}

/// The reason to keep an attachment under its lock: it has changed since it was judged.
fn changed(judged: &NetworkAttachment<'_>, record: Option<&AttachmentRecord>) -> Option<String> {
    if record.map(AttachmentRecord::since) != judged.content().map(AttachmentRecord::since) {
        return Some("a call has worked on it meanwhile".to_owned());
    }
    // A release in a cluster names the creation of the address.
    let is_file = |row: &&&Row| row.place.is_some() && row.in_cluster.is_none();
    let mut files = judged.addresses.iter().filter(is_file);
    files.find_map(|row| match row.is_as_read() {
        Ok(true) => None,
        Ok(false) => Some("its reservation has changed meanwhile".to_owned()),
        Err(error) => Some(format!("its reservation can't be read: {error}")),
    })
}
