//! Removes the file of one reservation, while its directory is locked.

use anyhow::{Context, Result, anyhow, bail, ensure};
use cni::Object;
use ipam_da_host_local::Folders;
use reservations::{DataDir, Settings, State};

use crate::node::HeldAddress;
use crate::release::releaser::Releaser;

impl Releaser<'_> {
    /// Removes the file of a reservation, unless its content has changed.
    ///
    /// # Errors
    ///
    /// An I/O error; if the file has changed since it was read; if another process holds the
    /// directory's lock until the deadline.
    pub(crate) fn remove_file(&self, held: &HeldAddress<'_>) -> Result<()> {
        let (Some(directory), Some(ip)) = (held.directory, held.ip) else {
            bail!("it has no file");
        };
        let (shown, path) = (directory.path.display(), directory.path_of(ip));
        let path = path.display();
        ensure!(
            directory.cluster.is_none(),
            "{path} is not a file, but in a cluster: release it without --file-only"
        );
        let data_dir = directory.path.parent();
        let data_dir = data_dir.context("the directory has no parent")?;
        // With the allocator's index, which must stay up to date.
        let mut networks = self.node.networks.iter();
        let network = networks.find(|network| network.folders.data_dir == data_dir);
        let cache_dir = match network {
            Some(network) => network.folders.cache_dir.clone(),
            None => Folders::read(&Object::new())?.cache_dir,
        };
        let data_dir = DataDir::new(Settings {
            data_dir: data_dir.to_owned(),
            cache_dir,
            network: directory.name.clone(),
            reclaim: None,
            call: None,
            cancellation: Some(&self.deadline),
        });
        let opened = data_dir
            .open(&directory.name)
            .map_err(|error| match self.is_over() {
                Some(_) => anyhow!("another process has held {shown}/lock for {}", self.time),
                None => error.into(),
            });
        let mut store = opened?.with_context(|| format!("{shown} is gone"))?;
        let state = store.state(ip)?;
        let state = state.with_context(|| format!("{path} is gone"))?;
        // The same content, written at the same time.
        let before = directory.listed.iter().find(|listed| listed.ip == ip);
        let now = reservations::view::address(&directory.path, ip)?;
        let is_same = before.zip(now.as_ref()).is_some_and(|(before, now)| {
            before.since == now.since && (before.state == state || state == State::Torn)
        });
        ensure!(is_same, "{path} has changed meanwhile");
        store.release(ip)?;
        Ok(())
    }
}
