//! Reasons to keep an attachment whose container isn't in the list.

use std::time::SystemTime;

use crate::leaks::evidence::Judge;
use crate::leaks::netns::Namespace;
use crate::leaks::record_lock::Lock;
use crate::node::{NetworkAttachment, is_of_a_build};
use crate::output::times::rounded;

/// The reason to keep an attachment: its age, its lock, or its network namespace.
pub(super) fn reason_to_keep(
    attachment: &NetworkAttachment<'_>,
    judge: &Judge<'_>,
    even_in_use: bool,
) -> Option<String> {
    too_young(attachment.last_change(), judge)
        .or_else(|| Lock::of(attachment).reason)
        .or_else(|| in_use(attachment, judge).filter(|_| !even_in_use))
}

/// The reason to keep something that changed at this time: the list may not have it yet.
pub(super) fn too_young(changed: Option<SystemTime>, judge: &Judge<'_>) -> Option<String> {
    match changed {
        None => Some("its age is unknown".to_owned()),
        Some(time) if judge.is_old(time) => None,
        Some(_) => Some(format!("it is younger than {}", rounded(judge.older_than))),
    }
}

/// The reason to keep an attachment that something outside of the list may use, for example a build
/// step.
fn in_use(attachment: &NetworkAttachment<'_>, judge: &Judge<'_>) -> Option<String> {
    // Docker's answer counts. The namespace is the host's or the daemon's.
    if attachment.docker().is_some() {
        return None;
    }
    match judge.namespace(attachment) {
        Some(Namespace::There) => {
            let netns = attachment.content().map_or("", |content| &content.netns);
            Some(format!("its network namespace {netns} is there"))
        }
        Some(Namespace::Unknown(reason)) => Some(format!(
            "whether its network namespace is there is unknown: {reason}"
        )),
        Some(Namespace::Missing | Namespace::BeforeBoot) => None,
        // host-local has no records with namespaces.
        None => is_of_a_build(attachment.container)
            .then(|| "it may be a step of a build that is running".to_owned()),
    }
}

/// The reason to keep an attachment: a reservation has changed since it was read.
pub(super) fn changed_since(
    attachment: &NetworkAttachment<'_>,
    judge: &Judge<'_>,
) -> Option<String> {
    attachment.addresses.iter().find_map(|held| {
        let (directory, ip) = (held.directory?, held.ip?);
        if directory.cluster.is_some() {
            return None;
        }
        match reservations::view::address(&directory.path, ip) {
            Ok(None) => None,
            Err(error) => Some(format!("{ip} can't be read: {error}")),
            Ok(Some(now)) => match now.since {
                Some(since) if judge.is_old(since) => None,
                Some(_) => Some(format!("{ip} was reserved again meanwhile")),
                None => Some(format!("the age of {ip} can't be read")),
            },
        }
    })
}
