//! Compares reservations with the attachment of a call.

use cni::{Attachment, NetworkName};
use reservations::{Reservation, State};

/// An attachment of a network.
pub(crate) struct Holder<'a> {
    pub(crate) attachment: &'a Attachment,
    pub(crate) network: &'a NetworkName,
}

impl Holder<'_> {
    /// True if an address in this state, in this directory, is reserved to the attachment, or, by
    /// an old host-local, to its container as a whole.
    pub(crate) fn has(&self, directory: &NetworkName, state: &State) -> bool {
        self.has_by_interface(directory, state) || self.has_by_container(directory, state)
    }

    /// True if an address in this state, in this directory, is reserved to the attachment.
    pub(crate) fn has_by_interface(&self, directory: &NetworkName, state: &State) -> bool {
        of_network(self.network, directory, state)
            .is_some_and(|reservation| reservation.is_attachment(self.attachment))
    }

    /// True if an address in this state, in this directory, is reserved to the container without
    /// an interface.
    pub(crate) fn has_by_container(&self, directory: &NetworkName, state: &State) -> bool {
        of_network(self.network, directory, state)
            .is_some_and(|reservation| reservation.is_container(self.attachment))
    }
}

/// The reservation of an address in this state, in this directory, if it is the network's.
pub(crate) fn of_network<'s>(
    network: &NetworkName,
    directory: &NetworkName,
    state: &'s State,
) -> Option<&'s Reservation> {
    let State::Reserved(reservation) = state else {
        return None;
    };
    let is_ours = reservation.network_in(directory.as_str()) == network.as_str();
    is_ours.then_some(reservation)
}
