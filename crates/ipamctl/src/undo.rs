//! Release of an attachment through its chain, in this process, as ipam-delegated does it.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use chain::tools::AttachmentRecord;
use chain::{Chain, Plugins, Released, WhenBusy};
use cni::{Environment, NetworkConfig, Object};
use docker_ipam_delegated::client::delete_endpoint;
use docker_ipam_delegated::tools::LINKED;
use reservations::State;

use crate::attached::Attached;
use crate::node::Node;

/// Runs DEL for an attachment: by its record, or by today's conflist. An endpoint of
/// Docker's is undone by `docker-ipam-delegated`.
///
/// `refuse` gets the record while the attachment is locked, and may return a reason to
/// leave it alone.
///
/// # Errors
///
/// The chain's; if there is neither a conflist nor a record; and if an address is still
/// reserved afterwards.
pub(crate) fn undo(
    node: &Node,
    attached: &Attached<'_>,
    when_busy: WhenBusy,
    refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
) -> Result<Released> {
    // Its interface is to go, too.
    if let Some(endpoint) = attached.docker().and_then(|it| it.endpoint.as_ref()) {
        let plugin = &node.docker_places().docker_plugin;
        delete_endpoint(plugin, &endpoint.network, &endpoint.endpoint)?;
        return Ok(Released::Done);
    }
    let attachment = attached.attachment().map_err(anyhow::Error::msg)?;
    let config = config(node, attached)?;
    let environment = environment(node);
    let mut plugins = Plugins::in_cni_path(&environment).context("--cni-path")?;
    // As the daemon runs them, which needs no executables of them.
    if attached.docker().is_some() {
        plugins = plugins.and_linked(LINKED);
    }
    let chain = Chain::for_del(&config, &environment, plugins)?;
    let released = chain
        .release(&attachment, when_busy, refuse)
        .map_err(|error| {
            let error = anyhow::Error::from(error);
            if attached.record.is_some() {
                return error;
            }
            error.context("without a record; --file-only removes the reservations alone")
        })?;
    if released == Released::Done {
        must_be_gone(attached)?;
    }
    Ok(released)
}

/// Verifies that the chain has released what it was to release: today's conflist may lead
/// to another directory.
fn must_be_gone(it: &Attached<'_>) -> Result<()> {
    let placed = it
        .holdings
        .iter()
        .filter_map(|it| Some((it.directory?, it.ip?)));
    for (directory, ip) in placed {
        let path = directory.path.join(ip.to_string());
        let left = reservations::tools::address(&directory.path, ip);
        let left = left.with_context(|| path.display().to_string())?;
        let is_its = |state: &State| matches!(state, State::Reserved(holder) if holder.container_id == it.container);
        ensure!(
            !left.is_some_and(|left| is_its(&left.state)),
            "{}: DEL has succeeded, and {} is still there: the chain does not keep its \
             addresses in this directory; --file-only removes the file",
            it.describe(),
            path.display()
        );
    }
    Ok(())
}

/// The configuration of the network today; without one, that of the ADD. Its `stateDir` is
/// the folder in which the record was found.
fn config(node: &Node, attached: &Attached<'_>) -> Result<NetworkConfig> {
    let network = node.network(attached.network);
    let today = network.map(|it| it.config.clone());
    let recorded = attached.content().and_then(AttachmentRecord::config);
    let Some(config) = today.or(recorded) else {
        bail!(
            "{}: no conflist has this network, and there is no record; \
             --file-only removes the reservations alone",
            attached.describe()
        );
    };
    let file = attached.record.map(|it| it.listed.file.as_path());
    let of_record = file.and_then(Path::parent).and_then(Path::parent);
    match of_record.or(network.map(|it| it.state_dir.as_path())) {
        None => Ok(config),
        Some(state_dir) => Ok(with_state_dir(&config, state_dir)?),
    }
}

fn with_state_dir(config: &NetworkConfig, state_dir: &Path) -> Result<NetworkConfig, cni::Error> {
    let mut object: Object = cni::read("configuration", &config.to_raw())?;
    let mut ipam = config.ipam()?;
    ipam.set("stateDir", state_dir);
    object.set("ipam", &ipam);
    NetworkConfig::parse(serde_json::to_vec(&object).expect("an object is JSON"))
}

/// The environment of the chain: that of this process, without what a runtime may have
/// left in it.
fn environment(node: &Node) -> Environment {
    let of_calls = [
        "CNI_COMMAND",
        "CNI_CONTAINERID",
        "CNI_IFNAME",
        "CNI_NETNS",
        "CNI_ARGS",
    ];
    let variables = node.environment.iter();
    variables
        .filter(|(name, _)| !of_calls.iter().any(|it| name.to_str() == Some(*it)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
