//! Upkeep of a store: removes files that killed processes have left, verifies that files can be
//! made, and releases reservations from before this boot.

use std::io;

use cni::Error;
use state_files::Boot;

use super::Store;
use crate::new_file::{self, Content};
use crate::reclaim;

impl Store<'_> {
    /// Removes the unfinished files that killed processes have left.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn remove_leftovers(&mut self) -> Result<(), Error> {
        let leftovers = new_file::leftovers(&self.directory).map_err(|e| self.unreadable(e))?;
        if leftovers.is_empty() {
            return Ok(());
        }
        let removed = self.change(|directory| {
            let mut names = leftovers.iter();
            names.try_for_each(|name| directory.remove(name))
        });
        removed.map_err(|e| self.unreadable(e))
    }

    /// Verifies that a reservation could be made, and leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn verify_writable(&mut self) -> Result<(), Error> {
        let name = new_file::temporary_name();
        let content = Content {
            bytes: b"x",
            origin: &[],
        };
        let written = self.change(|directory| {
            new_file::create(directory, &name, content)?;
            directory.remove(&name)
        });
        written.map_err(|e| self.unreadable(e))
    }

    /// Releases the network's reservations from before this boot, once in each boot.
    pub(super) fn reclaim(&mut self, boot: &Boot) -> Result<(), Error> {
        let (network, own) = (self.settings.network.as_str(), self.own);
        let found = reclaim::look(&self.directory, network, boot, |state| {
            state.is_releasable_by(network, own)
        });
        let Some(found) = found.map_err(|e| self.unreadable(e))? else {
            return Ok(());
        };
        for ip in &found.from_before {
            self.release(*ip)?;
        }
        let path = self.directory.path().display();
        let released = found.from_before.len();
        if released > 0 {
            tracing::warn!(%path, released, "released what was reserved before the last boot");
        }
        if found.undecided > 0 {
            // The clock may be wrong until later in this boot: the next call looks again.
            let kept = found.undecided;
            tracing::debug!(
                %path,
                kept,
                "kept reservations of another boot that aren't older than this boot"
            );
            return Ok(());
        }
        let noted = self.change(|directory| reclaim::note(directory, network, boot, &found));
        noted.map_err(|e| self.unreadable(e))
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::io(self.directory.path().display(), error)
    }
}
