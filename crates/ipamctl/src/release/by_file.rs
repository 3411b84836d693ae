//! Releases one reservation by its file, while its directory is locked.

use anyhow::{Context, Result, bail, ensure};
use cni::Object;
use ipam_da_host_local::Folders;
use reservations::{DataDir, Settings, State};

use crate::node::{HeldAddress, Node};
use crate::release::deadline::Deadline;

/// Removes the file of a reservation, unless its content has changed.
///
/// # Errors
///
/// An I/O error; if the file has changed since it was read; if another process holds the
/// directory's lock until the deadline.
pub(crate) fn remove(node: &Node, held: &HeldAddress<'_>, deadline: &Deadline) -> Result<()> {
    let (Some(directory), Some(ip)) = (held.directory, held.ip) else {
        bail!("it has no file");
    };
    let path = directory.path.join(ip.to_string());
    let path = path.display();
    ensure!(
        directory.shared_by.is_none(),
        "{path} is not a file, but in a cluster: release it without --file-only"
    );
    let data_dir = directory.path.parent();
    let data_dir = data_dir.context("the directory has no parent")?;
    // The allocator's index, so that it stays up to date.
    let mut networks = node.networks.iter();
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
        cancellation: Some(deadline),
    });
    let opened = data_dir.open(&directory.name);
    let mut store = opened
        .map_err(|error| deadline.explain(error.into(), &directory.path))?
        .with_context(|| format!("{} is gone", directory.path.display()))?;
    let state = store.state(ip)?;
    let state = state.with_context(|| format!("{path} is gone"))?;
    // The same content, written at the same time.
    let before = directory.listed.iter().find(|listed| listed.ip == ip);
    let now = reservations::view::address(&directory.path, ip)?;
    let is_same = before.zip(now.as_ref()).is_some_and(|(before, now)| {
        before.since == now.since && (before.state == state || state == State::Torn)
    });
    ensure!(is_same, "{path} has changed meanwhile");
    store.release(ip, &state)?;
    Ok(())
}
