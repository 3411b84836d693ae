//! Holders of a store's addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni::{Attachment, Error, code};

use super::Store;
use crate::index::HolderKey;
use crate::origin::{self, Fact, Noted};
use crate::reservation::Reservation;
use crate::state::State;

impl Store<'_> {
    /// The addresses that the attachment holds, and those that an old host-local
    /// reserved to its container without an interface. The files of the `hints` are
    /// read even if the index doesn't know them.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn held_by(
        &mut self,
        attachment: &Attachment,
        hints: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Reservation)>, Error> {
        let key = HolderKey::of(attachment.container_id.as_str());
        let candidates = self.ask(|index| index.candidates(key))?;
        let ips: BTreeSet<IpAddr> = candidates.iter().chain(hints).copied().collect();
        let mut held = Vec::new();
        for ip in ips {
            if let Some(State::Reserved(reservation)) = self.state(ip)?
                && self.is_ours(&reservation)
                && (reservation.is_attachment(attachment) || reservation.is_container(attachment))
            {
                held.push((ip, reservation));
            }
        }
        Ok(held)
    }

    /// The network's reservations, and, in its own directory, torn files. All files are read.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn all(&mut self) -> Result<Vec<(IpAddr, State)>, Error> {
        let (network, own) = (self.settings.network.as_str(), self.own);
        let mut states = match self.read_files() {
            Ok((_, states)) => states,
            Err(error) => return Err(Error::io(self.directory.path().display(), error)),
        };
        states.retain(|(_, state)| state.is_releasable_by(network, own));
        states.sort_unstable_by_key(|(ip, _)| *ip);
        Ok(states)
    }

    /// The current state of an address, from its file; `None` if it has no file.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn state(&self, ip: IpAddr) -> Result<Option<State>, Error> {
        self.directory
            .state_of(&ip.to_string())
            .map_err(|e| self.failed(ip, e))
    }

    /// True if the ADD with this call ID made the reservation of an address. An attribute of the
    /// reservation's file decides. On a file system without attributes, it is true if the ADD
    /// `has_answered` with the address.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path; code 11 if it is unknown.
    pub fn is_of_call(&self, ip: IpAddr, call: &str, has_answered: bool) -> Result<bool, Error> {
        match origin::read(&self.directory, ip, Fact::Call).map_err(|e| self.failed(ip, e))? {
            Noted::Id(id) => Ok(id == call),
            Noted::Nothing => Ok(false),
            Noted::Impossible if has_answered => Ok(true),
            Noted::Impossible => Err(Error::new(
                code::TRY_AGAIN_LATER,
                format!(
                    "{}: kept, since the file system has no attributes that say which ADD has made it",
                    self.directory.path_of(ip).display()
                ),
            )),
        }
    }

    /// True if a reservation in this directory is the network's.
    pub fn is_ours(&self, reservation: &Reservation) -> bool {
        reservation.is_of(self.own, self.settings.network.as_str())
    }
}
