//! Release of one reservation by its file, while its directory is locked.

use anyhow::{Context, Result, bail, ensure};
use reservations::{DataDir, Settings, State};

use crate::node::Node;
use crate::node::held_address::Holding;
use crate::release::deadline::Deadline;

/// Removes the file of a reservation, unless its content is another one by now.
///
/// # Errors
///
/// The system's; if the reservation is not the one that was read; if another process holds
/// the directory's lock until the deadline.
pub(crate) fn remove(node: &Node, it: &Holding<'_>, deadline: &Deadline) -> Result<()> {
    let (Some(directory), Some(ip)) = (it.directory, it.ip) else {
        bail!("it has no file");
    };
    ensure!(
        directory.shared_by.is_none(),
        "{} is in etcd, and no file: release it without --file-only",
        path(it)
    );
    let data_dir = directory
        .path
        .parent()
        .context("the directory has no parent")?;
    // The index of the allocator, so that it stays up to date.
    let same = node
        .networks
        .iter()
        .find(|it| it.folders.data_dir == data_dir);
    let cache_dir = match same {
        Some(network) => network.folders.cache_dir.clone(),
        None => ipam_da_host_local::Folders::read(&cni::Object::new())?.cache_dir,
    };
    let settings = Settings {
        data_dir: data_dir.to_owned(),
        cache_dir,
        network: directory.name.clone(),
        reclaim: None,
        call: None,
        cancellation: Some(deadline),
    };
    let data_dir = DataDir::new(settings);
    let opened = data_dir.open(&directory.name);
    let mut store = opened
        .map_err(|error| deadline.explain(error.into(), &directory.path))?
        .with_context(|| format!("{} is gone", directory.path.display()))?;
    let state = store
        .state(ip)?
        .with_context(|| format!("{} is gone", path(it)))?;
    // What was read before is still there: the same content, written at the same time.
    let was = directory.listed.iter().find(|listed| listed.ip == ip);
    let now = reservations::view::address(&directory.path, ip)?;
    let is_same = was.zip(now.as_ref()).is_some_and(|(was, now)| {
        was.since == now.since && (was.state == state || state == State::Torn)
    });
    ensure!(is_same, "{} has changed meanwhile", path(it));
    store.release(ip, &state)?;
    Ok(())
}

/// The file of a reservation.
pub(crate) fn path(it: &Holding<'_>) -> String {
    let directory = it.directory.map(|it| it.path.display().to_string());
    let ip = it.ip.map(|ip| ip.to_string());
    format!(
        "{}/{}",
        directory.unwrap_or_default(),
        ip.unwrap_or_default()
    )
}
