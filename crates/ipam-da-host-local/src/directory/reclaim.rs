//! What a reboot has ended, in a directory: once after each boot, reservations
//! from before it go.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;

use cni::Error;
use ipam::Holder;

use super::Directory;
use super::stamp::Stamp;
use crate::boot::{Boot, Note};

impl Directory {
    /// Releases what was reserved before the boot, unless that has been done
    /// since.
    pub(super) fn reclaim(&mut self, boot: &Boot) -> Result<(), Error> {
        let failed = |e| Error::io(format_args!("ipam.reclaim in {}", self.path.display()), e);
        let (identity, _) = Stamp::read(&self.path).map_err(failed)?;
        let note = Note::at(identity.file_in(&self.cache_dir, "boot"));
        if note.says(boot) {
            return Ok(());
        }
        let boot_time = boot.seconds().map_err(failed)?;
        let older = self.older_than(boot_time)?;
        for (ip, holder) in &older {
            // Whichever network's it is: all are from before the boot.
            self.release_for(*ip, holder, &self.claims.networks())?;
        }
        if !older.is_empty() {
            let (path, released) = (self.path.display(), older.len());
            tracing::warn!(%path, released, "released what was reserved before the last boot");
        }
        if let Err(error) = note.write(boot) {
            tracing::warn!(%error, "the directory will be looked through again");
        }
        Ok(())
    }

    /// The reservations whose files were written before this time. Of torn and
    /// of unreadable ones, nobody is the holder.
    fn older_than(&mut self, seconds: i64) -> Result<Vec<(IpAddr, Holder)>, Error> {
        let mut all: Vec<(IpAddr, Holder)> = self
            .all()?
            .iter()
            .map(|(ip, holder)| (ip, holder.cloned().unwrap_or(Holder::Torn)))
            .collect();
        all.retain(|(ip, _)| {
            fs::metadata(self.file(*ip)).is_ok_and(|it| it.is_file() && it.mtime() < seconds)
        });
        Ok(all)
    }
}
