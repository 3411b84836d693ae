//! CHECK: verifies that the attachment's addresses are still reserved to it.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName, code};
use reservations::{DataDir, Sought, State};

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
    let held = |name: &NetworkName| match data_dir.open(name)? {
        Some(mut store) => store.held_by(attachment, &[]),
        None => Ok(Vec::new()),
    };
    let sought = Sought::Attachment(attachment, &[]);
    for (ip, name) in &in_pools {
        let Some(state) = not_held(&data_dir, *ip, name, attachment)? else {
            continue;
        };
        // If the pool was renamed, the address is in the old directory.
        let elsewhere = data_dir.names()?;
        let is_held = |name: &NetworkName| Ok(held(name)?.iter().any(|(held, _)| held == ip));
        if !any_of(&data_dir, &elsewhere, sought, is_held)? {
            return Err(not_reserved(*ip, name, state, attachment));
        }
    }
    if !in_pools.is_empty() {
        return Ok(());
    }
    // If no selector has put pools into the result of CHECK, any address of the attachment is
    // enough, as with host-local's CHECK.
    let is_held = |name: &NetworkName| Ok(!held(name)?.is_empty());
    if any_of(&data_dir, &data_dir.names()?, sought, is_held)? {
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

/// The state of an address in this directory; `None` if the attachment holds it.
fn not_held(
    data_dir: &DataDir<'_>,
    ip: IpAddr,
    name: &NetworkName,
    attachment: &Attachment,
) -> Result<Option<Option<State>>, Error> {
    let Some(store) = data_dir.open(name)? else {
        return Ok(Some(None));
    };
    let state = store.state(ip)?;
    let holds = matches!(&state, Some(State::Reserved(holder))
        if store.is_ours(holder) && (holder.is_attachment(attachment) || holder.is_container(attachment)));
    Ok((!holds).then_some(state))
}

/// True if `is_so` holds for one of the directories with reservations of the attachment or network
/// that is sought. An error if it holds for none of them, and one can't be read.
fn any_of(
    data_dir: &DataDir<'_>,
    names: &[NetworkName],
    sought: Sought<'_>,
    is_so: impl Fn(&NetworkName) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let mut unknown = None;
    for name in names {
        match data_dir.may_hold(name, sought) {
            Ok(true) if is_so(name)? => return Ok(true),
            Ok(_) => {}
            Err(error) => unknown = Some(error),
        }
    }
    unknown.map_or(Ok(false), Err)
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
