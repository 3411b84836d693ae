//! Tells whether a directory may hold reservations to release. No lock is taken, and no file
//! is made.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use cni::{Attachment, Error, NetworkName};
use state_files::FileId;

use crate::change_detection::Version;
use crate::data_dir::DataDir;
use crate::directory::Directory;
use crate::index::{HolderKey, Index};
use crate::state::State;

/// Reservations that are looked for in a directory.
#[derive(Clone, Copy, Debug)]
pub enum Sought<'a> {
    /// Reservations of the network.
    Network,
    /// Reservations of this attachment's container on the network. The files of these addresses
    /// are read first.
    Attachment(&'a Attachment, &'a [IpAddr]),
}

impl Sought<'_> {
    /// True if an address in this state is sought.
    fn is(self, state: &State, network: &str, own: bool) -> bool {
        state.is_releasable_by(network, own)
            && match (self, state) {
                (Self::Network, _) => true,
                (Self::Attachment(attachment, _), State::Reserved(reservation)) => {
                    reservation.container_id == attachment.container_id.as_str()
                }
                (Self::Attachment(..), _) => false,
            }
    }
}

impl DataDir<'_> {
    /// True if the directory of this name may hold a sought reservation.
    ///
    /// For an attachment, an index that is up to date tells which files are read. Otherwise, all
    /// files are. No lock is taken, and no file is made.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path: the content of the directory is unknown.
    pub fn may_hold(&self, name: &NetworkName, sought: Sought<'_>) -> Result<bool, Error> {
        let path = self.path_of(name);
        let held = self.may_hold_at(&path, name == self.network(), sought);
        held.map_err(|error| Error::io(path.display(), error))
    }

    /// As [`Self::may_hold`]; `own` for the directory that is named after the network.
    fn may_hold_at(&self, path: &Path, own: bool, sought: Sought<'_>) -> io::Result<bool> {
        let Some(directory) = Directory::find(path)? else {
            return Ok(false);
        };
        let network = self.network().as_str();
        let is_sought = |state: &State| sought.is(state, network, own);
        let holds = |ips: &[IpAddr]| {
            for ip in ips {
                let state = directory.state_of(&ip.to_string())?;
                if state.is_some_and(|state| is_sought(&state)) {
                    return Ok(true);
                }
            }
            Ok::<_, io::Error>(false)
        };
        if let Sought::Attachment(attachment, hints) = sought {
            if holds(hints)? {
                return Ok(true);
            }
            let metadata = directory.metadata()?;
            let (id, version) = (FileId::from(&metadata), Version::of(&metadata));
            let key = HolderKey::of(attachment.container_id.as_str());
            let index = self
                .cache()
                .and_then(|folder| Index::open(folder, id, version));
            let candidates = |mut index: Index| {
                index.note_use();
                index.candidates(key)
            };
            if let Some(Ok(ips)) = index.map(candidates) {
                // A file that can't be read may be one that is sought.
                return Ok(holds(&ips).unwrap_or(true));
            }
        }
        let mut files = directory.read_all()?;
        Ok(files.any(|(_, file)| is_sought(&file.state)))
    }
}
