//! CHECK: verifies that the attachment's addresses are still reserved to it.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName, code};
use ipam::{Overflow, Pools};
use reservations::{DataDir, State};

use crate::holder::Holder;
use crate::storage;

/// Verifies that every address of `prevResult` that is in a pool is reserved to the attachment,
/// and that the attachment has an address at all.
pub(crate) fn check(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::directories(call, &config.ipam()?)?;
    let prev_result = config
        .prev_result()?
        .ok_or_else(|| Error::config("prevResult is missing: CHECK compares with it"))?;
    let pools = Pools::of_call(config)?.read(config)?;
    let holder = Holder {
        attachment,
        network: config.name(),
    };
    let mut is_any_in_pools = false;
    for ip_config in &prev_result.ips {
        let mut pools = pools.iter().flat_map(Overflow::all);
        let Some(pool) = pools.find(|pool| pool.ranges.contains(ip_config.ip())) else {
            continue;
        };
        is_any_in_pools = true;
        let ip = pool.ranges.in_family(ip_config.ip());
        let directory = pool.directory(config.name());
        let states = data_dir.states_of(directory, &[ip])?;
        let state = states.first().map(|(_, state)| state);
        if state == Some(&State::Unreadable) {
            return Err(data_dir.unreadable(directory, ip));
        }
        if !state.is_some_and(|state| holder.has(directory, state)) {
            return Err(not_reserved(ip, directory, state, attachment));
        }
    }
    // If no selector has put pools into the result of CHECK, any address of the attachment is
    // enough, as with host-local's CHECK.
    if is_any_in_pools || has_any(&data_dir, &holder)? {
        return Ok(());
    }
    Err(Error::new(
        code::NOT_RESERVED,
        format!(
            "no address is reserved to {attachment} on network {}",
            config.name()
        ),
    ))
}

/// True if the attachment has an address in any directory; an error if none is found, and a
/// directory or a file can't be read.
fn has_any(data_dir: &DataDir<'_>, holder: &Holder<'_>) -> Result<bool, Error> {
    let mut unknown = Vec::new();
    for name in data_dir.names()? {
        let states = data_dir.states(&name).unwrap_or_else(|error| {
            unknown.push(error);
            Vec::new()
        });
        if states.iter().any(|(_, state)| holder.has(&name, state)) {
            return Ok(true);
        }
        let unreadable = states.iter();
        let unreadable = unreadable.filter(|(_, state)| *state == State::Unreadable);
        unknown.extend(unreadable.map(|(ip, _)| data_dir.unreadable(&name, *ip)));
    }
    Error::all_as_one(unknown).map(|()| false)
}

fn not_reserved(
    ip: IpAddr,
    directory: &NetworkName,
    state: Option<&State>,
    attachment: &Attachment,
) -> Error {
    let is = match state {
        None | Some(State::Unreadable) => "not reserved".to_owned(),
        Some(State::Reserved(holder)) => format!("reserved to {holder}"),
        Some(State::Torn) => "reserved to nobody: the file is empty or cut off".to_owned(),
        Some(State::NotAFile) => "reserved to nobody: there is no regular file".to_owned(),
    };
    Error::new(
        code::NOT_RESERVED,
        format!("{ip} should be reserved to {attachment} in {directory}, and is {is}"),
    )
}
