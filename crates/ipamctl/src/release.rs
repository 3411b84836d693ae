//! Releases an attachment: through the chain of its record, through the current conflist, by the file of
//! its reservation, or in its cluster.
//!
//! The [`Way`] follows from what is known of it. With a record or a conflist, a chain does the DEL under the
//! attachment's lock, and its addresses must be gone afterwards; `reservation_file` removes a file that no
//! plugin knows, and an address of a cluster is released in its store. An [`Outcome`] says what was done.

mod outcome;
mod release_command;
mod reservation_file;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use chain::record::AttachmentRecord;
use chain::{Chain, Plugins, Released, WhenBusy};
use cluster::{release_each, until_answered};
use docker_records::linked_plugins::LINKED;
use serde::Serialize;

use crate::inventory::{ClusterAddress, NetworkAttachment, Row};
use crate::local_node::LocalNode;
use crate::network::with_keys;

pub(crate) use outcome::{AttachmentOutcome, Outcome, print};
pub(crate) use release_command::release_command;

/// Time limit of `ipamctl gc` for an attachment.
pub(crate) const GC_TIME_LIMIT: Duration = Duration::from_secs(20);

/// How an attachment is released. The names are documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// DEL by the record alone.
    Record,
    /// DEL by today's conflist: there is no usable record.
    Conflist,
    /// Only the file of its reservation: no plugin knows it.
    File,
    /// Only its addresses in a cluster: this node has no record of it.
    Cluster,
}

impl Way {
    /// The way for this attachment. Of a reservation without an interface, and of one that the
    /// attachment's record doesn't name, only the file is removed: DEL could release another address
    /// of the container.
    fn of(node: &LocalNode, attachment: &NetworkAttachment<'_>) -> Self {
        let mut addresses = attachment.addresses.iter();
        let has_conflist = node.network(attachment.network).is_some();
        if attachment.content().is_some() {
            Self::Record
        } else if addresses.any(|row| row.in_cluster.is_some()) {
            Self::Cluster
        } else if has_conflist && attachment.attachment().is_ok() && !attachment.is_leftover() {
            Self::Conflist
        } else {
            Self::File
        }
    }

    /// The way for people.
    fn text(self) -> &'static str {
        match self {
            Self::Record => "through the chain of its record",
            Self::Conflist => "through the chain of the current conflist",
            Self::File => "by its file only: no plugin knows it",
            Self::Cluster => "in the cluster only: this node has no record of it",
        }
    }
}

/// Releases an attachment within this time, waits for locks included.
///
/// `refuse` gets the record while the attachment is locked, and may return a reason not to
/// release it.
///
/// # Errors
///
/// An error of the chain; an address that is still reserved afterwards.
pub(crate) fn release(
    node: &LocalNode,
    attachment: &NetworkAttachment<'_>,
    when_busy: WhenBusy,
    within: Duration,
    refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
) -> Result<Outcome> {
    if let Some(reason) = attachment.duplicate_records() {
        bail!(reason);
    }
    let advice = "docker-ipam-delegated has made it: docker network disconnect --force";
    ensure!(attachment.endpoint.is_none(), advice);
    let way = Way::of(node, attachment);
    if matches!(way, Way::File | Way::Cluster) {
        if let Some(reason) = refuse(None) {
            return Ok(Outcome::Kept { reason });
        }
        for row in &attachment.addresses {
            match &row.in_cluster {
                Some(stored) => release_in_cluster(stored)?,
                None => reservation_file::remove(row, within)?,
            }
        }
        return Ok(Outcome::Released { by: way });
    }
    let environment = &node.environment;
    // Docker's daemon has them linked in, so their executables may be missing.
    let linked = if attachment.is_docker() { LINKED } else { &[] };
    let installed = Plugins::in_cni_path(environment).context("--cni-path")?;
    let plugins = installed.and_linked(linked);
    let today;
    let chain = if let Some(record) = attachment.record.filter(|_| way == Way::Record) {
        Chain::of_record(record, environment, plugins)?
    } else {
        let network = node.network(attachment.network);
        let network = network.context("it has no record, and no conflist in --conf-dir")?;
        let state_dir = &network.state_dir;
        today = with_keys(&network.config, |_, ipam| ipam.set("stateDir", state_dir))?;
        Chain::new(&today, environment, plugins)?
    };
    let id = attachment.attachment().map_err(anyhow::Error::msg)?;
    let released = chain.release(&id, when_busy, within, refuse)?;
    if let Released::Refused(reason) = released {
        return Ok(Outcome::Kept { reason });
    }
    for row in &attachment.addresses {
        verify_released(row)?;
    }
    Ok(Outcome::Released { by: way })
}

/// Releases an address in its cluster, if it is still this creation of its name.
///
/// # Errors
///
/// Another node, or another machine of this node's name, holds it; those of the store.
fn release_in_cluster(stored: &ClusterAddress) -> Result<()> {
    if let Some(reason) = stored.foreign_holder() {
        bail!("{}: {reason}: ipamctl node-forget", stored.path);
    }
    let mut store = stored.cluster.open()?;
    let all = std::slice::from_ref(&stored.held);
    let mut is_released = false;
    let released = release_each(&mut *store, all, |_| is_released = true);
    released.map_err(|error| anyhow!(error.msg))?;
    ensure!(is_released, "{} has changed: see ipamctl ls", stored.path);
    Ok(())
}

/// Verifies that the container doesn't hold an address any more: the current conflist may name
/// another directory.
fn verify_released(row: &Row) -> Result<()> {
    let holder = if let Some(stored) = &row.in_cluster {
        let mut store = stored.cluster.open()?;
        let key = std::slice::from_ref(&stored.held.key);
        let left = until_answered(&mut *store, |store| store.read(key))?;
        let holder = left.into_iter().find_map(|left| left.holder);
        holder.map(|holder| holder.container_id)
    } else {
        row.read_again()?.and_then(|row| row.container)
    };
    ensure!(
        holder.is_none() || holder != row.container,
        "DEL has succeeded, and {} is still there: the chain does not keep its addresses there. If the \
         container is gone, remove that by hand",
        row.file().unwrap_or_default().display()
    );
    Ok(())
}
