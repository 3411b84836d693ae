//! Releases an attachment: through the chain of its record, through today's conflist, or only its
//! reservation.
//!
//! The [`Way`] follows from what is known of it. With a record or a conflist, a chain does the DEL under
//! the attachment's lock, and its addresses must be gone afterwards; `by_file` removes a file that no
//! plugin knows, and an address of a cluster is released in its store. An [`Outcome`] says what was done.

mod by_file;
mod outcome;
mod printed_command;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use chain::record::AttachmentRecord;
use chain::{Chain, Plugins, Released, WhenBusy};
use cluster::{release_each, until_answered};
use cni::Object;
use docker_records::linked_plugins::LINKED;
use serde::Serialize;

use crate::inventory::{HeldAddress, NetworkAttachment, Stored};
use crate::network::with_keys;
use crate::node::Node;

pub(crate) use outcome::{Done, Outcome, print};
pub(crate) use printed_command::release_command;

/// Time limit of `ipamctl gc` for an attachment.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

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
    fn of(node: &Node, attachment: &NetworkAttachment<'_>) -> Self {
        let mut addresses = attachment.addresses.iter();
        let has_conflist = node.network(attachment.network).is_some();
        if attachment.content().is_some() {
            Self::Record
        } else if addresses.any(|held| held.stored.is_some()) {
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
    node: &Node,
    attachment: &NetworkAttachment<'_>,
    when_busy: WhenBusy,
    within: Duration,
    refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
) -> Result<Done> {
    if let Some(reason) = attachment.two_records() {
        bail!(reason);
    }
    ensure!(
        attachment.endpoint.is_none(),
        "docker-ipam-delegated has made it: docker network disconnect --force"
    );
    let way = Way::of(node, attachment);
    if matches!(way, Way::File | Way::Cluster) {
        if let Some(reason) = refuse(None) {
            return Ok(Done::Kept { reason });
        }
        for held in &attachment.addresses {
            match &held.stored {
                Some(stored) => release_stored(stored)?,
                None => by_file::remove(held, within)?,
            }
        }
        return Ok(Done::Released { by: way });
    }
    let environment = &node.environment;
    // Docker's daemon has them linked in, so their executables may be missing.
    let linked = if attachment.is_dockers() { LINKED } else { &[] };
    let installed = Plugins::in_cni_path(environment).context("--cni-path")?;
    let plugins = installed.and_linked(linked);
    let today;
    let chain = if let Some(record) = attachment.record.filter(|_| way == Way::Record) {
        Chain::of_record(record, environment, plugins)?
    } else {
        let network = node.network(attachment.network);
        let network = network.context("it has no record, and no conflist in --conf-dir")?;
        let set = |_: &mut Object, ipam: &mut Object| ipam.set("stateDir", &network.state_dir);
        today = with_keys(&network.config, set)?;
        Chain::new(&today, environment, plugins)?
    };
    let id = attachment.attachment().map_err(anyhow::Error::msg)?;
    let released = chain.release(&id, when_busy, within, refuse)?;
    if let Released::Refused(reason) = released {
        return Ok(Done::Kept { reason });
    }
    for held in &attachment.addresses {
        must_be_gone(held)?;
    }
    Ok(Done::Released { by: way })
}

/// Releases an address in its cluster, if it is still this creation of its name.
///
/// # Errors
///
/// Another node, or another machine of this node's name, holds it; those of the store.
fn release_stored(stored: &Stored) -> Result<()> {
    if let Some(reason) = stored.is_of_another_machine() {
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
fn must_be_gone(held: &HeldAddress) -> Result<()> {
    let holder = if let Some(stored) = &held.stored {
        let mut store = stored.cluster.open()?;
        let key = std::slice::from_ref(&stored.held.key);
        let left = until_answered(&mut *store, |store| store.read(key))?;
        let holder = left.into_iter().find_map(|left| left.holder);
        holder.map(|holder| holder.container_id)
    } else {
        held.read_again()?.and_then(|held| held.container)
    };
    ensure!(
        holder.is_none() || holder != held.container,
        "DEL has succeeded, and {} is still there: the chain does not keep its addresses there. If the \
         container is gone, remove that by hand",
        held.file().unwrap_or_default().display()
    );
    Ok(())
}
