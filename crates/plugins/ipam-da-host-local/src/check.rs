//! CHECK: verifies that the attachment's addresses are still reserved to it.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName, code};
use reservations::{Sought, State};

use crate::storage;

/// Verifies that every address of `prevResult` that is in a pool is reserved to the attachment,
/// and that the attachment has an address at all.
pub(crate) fn check(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir(call, &config.ipam()?)?;
    let prev_result = config
        .prev_result()?
        .ok_or_else(|| Error::config("prevResult is missing: CHECK compares with it"))?;
    let pools = ipam::pools(config)?;
    let in_pools: Vec<(IpAddr, &NetworkName)> = prev_result
        .ips
        .iter()
        .filter_map(|ip_config| {
            let mut pools = pools.iter();
            let pool = pools.find(|pool| pool.ranges.contains(ip_config.ip()))?;
            let ip = pool.ranges.in_family(ip_config.ip());
            Some((ip, pool.directory(config.name())))
        })
        .collect();
    // Any address of the attachment if `ip` is `None`.
    let holds = |name: &NetworkName, ip: Option<IpAddr>| -> Result<bool, Error> {
        let Some(mut store) = data_dir.open(name)? else {
            return Ok(false);
        };
        let held = store.held_by(attachment, ip.as_slice())?;
        Ok(held.iter().any(|(held, _)| ip.is_none_or(|ip| ip == *held)))
    };
    // An error if no directory has it, and one can't be read.
    let holds_anywhere = |ip: Option<IpAddr>| -> Result<bool, Error> {
        let mut unknown = None;
        for name in data_dir.names()? {
            match data_dir.may_hold(&name, Sought::Attachment(attachment, &[])) {
                Ok(true) if holds(&name, ip)? => return Ok(true),
                Ok(_) => {}
                Err(error) => unknown = Some(error),
            }
        }
        unknown.map_or(Ok(false), Err)
    };
    for (ip, name) in &in_pools {
        // If the pool was renamed, the address is in the old directory.
        if !holds(name, Some(*ip))? && !holds_anywhere(Some(*ip))? {
            let store = data_dir.open(name)?;
            let state = store.map_or(Ok(None), |store| store.state(*ip))?;
            return Err(not_reserved(*ip, name, state, attachment));
        }
    }
    // If no selector has put pools into the result of CHECK, any address of the attachment is
    // enough, as with host-local's CHECK.
    if !in_pools.is_empty() || holds_anywhere(None)? {
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

fn not_reserved(
    ip: IpAddr,
    directory: &NetworkName,
    state: Option<State>,
    attachment: &Attachment,
) -> Error {
    let is = match state {
        None => "not reserved".to_owned(),
        Some(State::Reserved(holder)) => format!("reserved to {holder}"),
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
