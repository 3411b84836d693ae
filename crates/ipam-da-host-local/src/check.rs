//! CHECK: the addresses that the attachment was given are still reserved to it.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName, code};
use ipam::Holder;

use crate::config;
use crate::directory::{self, Directory};
use crate::storage::Storage;

/// Verifies that every address of `prevResult` that lies in a pool is reserved
/// to the attachment, and that the attachment holds one at all.
pub(crate) fn check(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let storage = Storage::read(call, &config.ipam()?)?;
    let prev_result = config
        .prev_result()?
        .ok_or_else(|| Error::config("prevResult is missing: CHECK compares with it"))?;
    let pools = config::pools(config)?;
    let in_pools: Vec<(IpAddr, &NetworkName)> = prev_result
        .ips
        .iter()
        .filter_map(|config| {
            let placed = pools.iter().find(|p| p.pool.ranges.contains(config.ip()))?;
            let ip = placed.pool.ranges.in_family(config.ip());
            Some((ip, &placed.directory))
        })
        .collect();
    for (ip, name) in &in_pools {
        let holder = match Directory::existing(&storage, name)? {
            Some(directory) => directory.holder(*ip)?,
            None => None,
        };
        if !holder
            .as_ref()
            .is_some_and(|holder| holds(holder, attachment))
        {
            return Err(not_reserved(*ip, name, holder, attachment));
        }
    }
    if !in_pools.is_empty() {
        return Ok(());
    }
    // What host-local's CHECK asks for. So it is without a selector that says
    // the pools on CHECK, too.
    let mut names = config::directories(config);
    names.extend(directory::claimed_by(&storage));
    for name in &names {
        if let Some(mut directory) = Directory::existing(&storage, name)?
            && !directory.held_by(attachment, &[])?.is_empty()
        {
            return Ok(());
        }
    }
    Err(Error::new(
        code::NOT_RESERVED,
        format!(
            "no address is reserved to {attachment} on network {}",
            config.name()
        ),
    ))
}

fn holds(holder: &Holder, attachment: &Attachment) -> bool {
    let container_id = attachment.container_id.as_str();
    holder.is_attachment(container_id, attachment.ifname.as_str())
        || holder.is_container(container_id)
}

fn not_reserved(
    ip: IpAddr,
    directory: &NetworkName,
    holder: Option<Holder>,
    attachment: &Attachment,
) -> Error {
    let whose = match holder {
        None => "not reserved".to_owned(),
        Some(Holder::Torn) => "reserved to nobody: the file is empty or cut off".to_owned(),
        Some(Holder::Container(container_id)) => format!("reserved to {container_id}"),
        Some(Holder::Attachment {
            container_id,
            ifname,
        }) => {
            format!("reserved to {container_id} {ifname}")
        }
    };
    Error::new(
        code::NOT_RESERVED,
        format!("{ip} should be reserved to {attachment} in {directory}, and is {whose}"),
    )
}
