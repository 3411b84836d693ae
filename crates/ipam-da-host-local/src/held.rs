//! Finds an address that an earlier ADD gave to an attachment.

use std::net::IpAddr;

use cni::{Attachment, Call, NetworkName};
use reservations::State;

use crate::config;
use crate::storage;

/// An address that the attachment holds on the network, and its directory. Searched are
/// the directories of the pools, unless `has_looked_in_pools`, and those of other named
/// pools. No lock is taken: the ADD may have failed because it got none.
pub(crate) fn by_earlier_add(
    attachment: &Attachment,
    call: &Call<'_>,
    has_looked_in_pools: bool,
) -> Option<(IpAddr, NetworkName)> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam().ok()?).ok()?;
    let known = config::directories(config);
    let others = data_dir.others(&known).unwrap_or_default();
    let pools = known.into_iter().filter(|_| !has_looked_in_pools);
    pools.chain(others).find_map(|name| {
        let listed = data_dir.list(&name).ok()?;
        let is_held = listed.into_iter().find(|it| {
            let State::Reserved(reservation) = &it.state else {
                return false;
            };
            it.network.as_deref() == Some(config.name().as_str())
                && (reservation.is_attachment(attachment) || reservation.is_container(attachment))
        });
        is_held.map(|it| (it.ip, name))
    })
}
