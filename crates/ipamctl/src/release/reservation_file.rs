use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use chain::Deadline;
use cni::NetworkName;
use reservations::DataDir;

use crate::inventory::Row;
use crate::output::times::rounded;

/// Removes the file of a reservation while its directory is locked, unless its content has changed since it
/// was read.
///
/// # Errors
///
/// An I/O error; if the file has changed; if another process holds the directory's lock for this
/// time.
pub(crate) fn remove(row: &Row, within: Duration) -> Result<()> {
    let place = row.place.as_ref().zip(row.ip);
    let (place, ip) = place.context("it has no file")?;
    let parent = place.parent().context("its directory has no parent")?;
    let name = row.directory().unwrap_or_default();
    let name: NetworkName = name.parse().map_err(|why| anyhow!("{why}"))?;
    let deadline = Deadline::after(within)?;
    let data_dir = DataDir {
        data_dir: parent.to_owned(),
        network: name.clone(),
        cancellation: Some(&deadline),
    };
    let late = || format!("not done within {}", rounded(within));
    let opened = data_dir.open(&name).with_context(late)?;
    let store = opened.context("its directory is gone, and the reservation with it")?;
    ensure!(row.is_as_read()?, "its file has changed: see ipamctl ls");
    Ok(store.release(ip)?)
}
