//! CHECK: the addresses that the attachment was given are still reserved to it.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName, code};
use reservations::State;

use crate::config;
use crate::storage;

/// Verifies that every address of `prevResult` that lies in a pool is reserved
/// to the attachment, and that the attachment holds one at all.
pub(crate) fn check(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir(call, &config.ipam()?)?;
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
        let Some(store) = data_dir.open(name)? else {
            return Err(not_reserved(*ip, name, None, attachment));
        };
        let state = store.state(*ip)?;
        let holds = matches!(&state, Some(State::Reserved(it))
            if store.is_ours(it) && (it.is_attachment(attachment) || it.is_container(attachment)));
        if !holds {
            return Err(not_reserved(*ip, name, state, attachment));
        }
    }
    if !in_pools.is_empty() {
        return Ok(());
    }
    // Without a selector's pools on CHECK, any address of the attachment is enough, as
    // for host-local's CHECK.
    let mut names = config::directories(config);
    names.extend(data_dir.others(&names)?);
    for name in &names {
        if let Some(mut store) = data_dir.open(name)?
            && !store.held_by(attachment, &[])?.is_empty()
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

fn not_reserved(
    ip: IpAddr,
    directory: &NetworkName,
    state: Option<State>,
    attachment: &Attachment,
) -> Error {
    let is = match state {
        None => "not reserved".to_owned(),
        Some(State::Reserved(it)) => format!("reserved to {it}"),
        Some(State::Torn | State::BeingWritten) => {
            "reserved to nobody: the file is empty or cut off".to_owned()
        }
        Some(State::Unreadable) => "unreadable".to_owned(),
    };
    Error::new(
        code::NOT_RESERVED,
        format!("{ip} should be reserved to {attachment} in {directory}, and is {is}"),
    )
}
