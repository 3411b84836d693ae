//! An earlier ADD of the same attachment, by its record or its reservations.

use anyhow::Result;
use chain::record::{AttachmentRecord, RecordState};
use ipam::Pool;
use reservations::State;
use reservations::view::ListedAddress;
use state_files::Boot;

use super::allocation::there;
use super::question::Question;
use crate::node::network::Network;

/// Effect of an earlier ADD on a new one.
#[derive(Debug)]
pub(super) enum Earlier {
    /// The new one is refused, with this reason.
    Refused(String),
    /// The address is not known, for this reason: the earlier one is undone first, or its
    /// record can't be used.
    Unknown(String),
}

/// The earlier ADD of the question's attachment, if there is one.
pub(super) fn of(
    network: &Network,
    question: &Question,
    pools: &[Pool],
) -> Result<Option<Earlier>> {
    let attachment = &question.attachment;
    let name = &network.name;
    let record = if network.is_host_local {
        None
    } else {
        let record = chain::record::record_of(&network.state_dir, name, attachment);
        there(&network.state_dir.join(name.as_str()), record)?.flatten()
    };
    let held = held(network, question)?;
    let unusable = record.as_ref().and_then(|record| {
        let reason = record.content.as_ref().err()?;
        let file = record.file.display();
        Some(format!("the record {file} can't be used: {reason}"))
    });
    if let Some(record) = record
        && let Ok(content) = &record.content
    {
        let file = record.file.display();
        let is_added = content.state == RecordState::Added;
        if !is_added || is_before_boot(content, question) {
            let why = if is_added {
                "is from before the last boot"
            } else {
                "is not complete"
            };
            return Ok(Some(Earlier::Unknown(format!(
                "the earlier ADD in {file} {why}, and would be undone first"
            ))));
        }
        // If its addresses are lost, the attachment is added again.
        if !held.is_empty() || !network.keeps_files() {
            return Ok(Some(Earlier::Refused(format!(
                "{attachment} is on network {name} already, recorded in {file} (code 110)"
            ))));
        }
    }
    // Without a record, the allocator looks at the pools of the ADD alone.
    let of_pools = held.iter().find(|(directory, it)| {
        pools
            .iter()
            .any(|pool| pool.directory(name).as_str() == directory && pool.ranges.contains(it.ip))
    });
    let refused = of_pools.map(|(directory, it)| {
        Earlier::Refused(format!(
            "{attachment} has {} of {directory} already (code 110)",
            it.ip
        ))
    });
    Ok(refused.or(unusable.map(Earlier::Unknown)))
}

/// True if the ADD of the record is known to be from before the last boot; an ADD asks as this
/// does.
fn is_before_boot(content: &AttachmentRecord, question: &Question) -> bool {
    let Some(then) = &content.boot else {
        return false;
    };
    Boot::current(&question.environment)
        .and_then(|now| now.is_after(then, content.added))
        .unwrap_or(false)
}

/// The addresses that are reserved to the attachment on this network, each with the name
/// of its directory.
fn held(network: &Network, question: &Question) -> Result<Vec<(String, ListedAddress)>> {
    let mut held = Vec::new();
    if !network.keeps_files() {
        return Ok(held);
    }
    let data_dir = &network.folders.data_dir;
    let names = there(data_dir, reservations::view::directories(data_dir))?;
    for name in names.unwrap_or_default() {
        let path = data_dir.join(name.as_str());
        let listed = there(&path, reservations::view::list(&path))?;
        let of_attachment = listed.into_iter().flatten().filter(|it| {
            let State::Reserved(holder) = &it.state else {
                return false;
            };
            let attachment = &question.attachment;
            // An old host-local reserved addresses to containers as a whole.
            let of_interface = holder.ifname.as_deref();
            it.network.as_deref() == Some(network.name.as_str())
                && holder.container_id == attachment.container_id.as_str()
                && of_interface.is_none_or(|it| it == attachment.ifname.as_str())
        });
        held.extend(of_attachment.map(|it| (name.to_string(), it)));
    }
    Ok(held)
}
