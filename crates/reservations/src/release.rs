//! Finds reservations without a lock, and releases them under it. So a directory is locked only if
//! there is something to release.

use std::net::IpAddr;

use cni::{Error, NetworkName, code};

use crate::data_dir::DataDir;
use crate::state::State;

impl DataDir<'_> {
    /// The states of these addresses in the directory of this name, of those that have a file. No
    /// lock is taken.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn states_of(
        &self,
        name: &NetworkName,
        ips: &[IpAddr],
    ) -> Result<Vec<(IpAddr, State)>, Error> {
        let directory = self.find(name)?;
        Ok(directory.map_or_else(Vec::new, |directory| directory.states_of(ips)))
    }

    /// The states of all addresses that have a file in the directory of this name, in no order. No
    /// lock is taken, so a torn file may be one that is being written.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn states(&self, name: &NetworkName) -> Result<Vec<(IpAddr, State)>, Error> {
        let Some(directory) = self.find(name)? else {
            return Ok(Vec::new());
        };
        let ips = directory.addresses();
        let ips = ips.map_err(|error| Error::io(directory.path.display(), error))?;
        Ok(directory.states_of(&ips))
    }

    /// The error of a file that can't be read ([`State::Unreadable`]): its holder is unknown.
    pub fn unreadable(&self, name: &NetworkName, ip: IpAddr) -> Error {
        let path = self.path_of(name).join(ip.to_string());
        let msg = format!(
            "{}: it can't be read: its holder is unknown",
            path.display()
        );
        Error::new(code::TRY_AGAIN_LATER, msg)
    }

    /// Locks the directory of this name, and releases those of these addresses whose state is
    /// still the same. Returns those that were released. A failure doesn't stop the release of the
    /// others.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path; code 11 for a file that can't be read any more.
    pub fn release(
        &self,
        name: &NetworkName,
        found: Vec<(IpAddr, State)>,
    ) -> Result<Vec<IpAddr>, Error> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let Some(store) = self.open(name)? else {
            return Ok(Vec::new());
        };
        let mut released = Vec::new();
        let mut errors = Vec::new();
        for (ip, state) in found {
            match store.state(ip) {
                Some(State::Unreadable) => errors.push(self.unreadable(name, ip)),
                now if now.as_ref() == Some(&state) => match store.release(ip) {
                    Ok(()) => {
                        let holder = match &state {
                            State::Reserved(holder) => holder.to_string(),
                            _ => String::new(),
                        };
                        tracing::debug!(%ip, directory = %name, holder, "released");
                        released.push(ip);
                    }
                    Err(error) => errors.push(error),
                },
                _ => {}
            }
        }
        Error::all_as_one(errors).map(|()| released)
    }
}
