//! Release of an attachment through its chain, in this process, as ipam-delegated does it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use chain::record::AttachmentRecord;
use chain::{Chain, Plugins, Released, WhenBusy};
use cni::{Cancellation, Environment, NetworkConfig, Object};
use docker_ipam_delegated::docker::plugin_calls::delete_endpoint;
use docker_ipam_delegated::ipam::linked_plugins::LINKED;
use reservations::State;
use reservations::view::ListedAddress;

use crate::node::Node;
use crate::node::attachment::Attached;
use crate::node::inventory::Directory;
use crate::node::network::ETCD_ALLOCATOR;
use crate::release::by_file;
use crate::release::deadline::Deadline;
use crate::release::printed_command;

/// Runs DEL for an attachment: by its record, or by today's conflist. An endpoint of
/// Docker's is undone by `docker-ipam-delegated`.
///
/// `refuse` gets the record while the attachment is locked, and may return a reason to
/// leave it alone. A reservation without an interface is released by its file: DEL of any
/// interface could release another address of the container.
///
/// # Errors
///
/// The chain's; if there is neither a conflist nor a record; and if an address is still
/// reserved afterwards.
pub(crate) fn undo(
    node: &Node,
    attached: &Attached<'_>,
    when_busy: WhenBusy,
    deadline: &Deadline,
    refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
) -> Result<Released> {
    // Its interface is to go, too.
    if let Some(endpoint) = attached.docker().and_then(|it| it.endpoint.as_ref()) {
        let plugin = &node.docker_places().docker_plugin;
        delete_endpoint(plugin, &endpoint.network, &endpoint.endpoint)?;
        return Ok(Released::Done);
    }
    if attached.ifname.is_none() {
        if let Some(reason) = refuse(None) {
            return Ok(Released::Refused(reason));
        }
        for holding in &attached.holdings {
            by_file::remove(node, holding, deadline)?;
        }
        return Ok(Released::Done);
    }
    let attachment = attached.attachment().map_err(anyhow::Error::msg)?;
    ensure!(!deadline.is_cancelled(), "{}", deadline.is_over());
    let config = config(node, attached)?;
    let environment = environment(node);
    let mut plugins = Plugins::in_cni_path(&environment).context("--cni-path")?;
    // As the daemon runs them, which needs no executables of them.
    if attached.docker().is_some() {
        plugins = plugins.and_linked(LINKED);
    }
    let chain = Chain::for_del(&config, &environment, plugins)?.released_until(deadline);
    let released = chain
        .release(&attachment, when_busy, refuse)
        .map_err(|error| {
            let mut error = anyhow::Error::from(error);
            if deadline.is_cancelled() {
                error = error.context(deadline.is_over());
            }
            if attached.record.is_some() {
                return error;
            }
            error.context("without a record")
        })?;
    if released == Released::Done {
        must_be_gone(node, attached)?;
    }
    Ok(released)
}

/// Verifies that the chain has released what it was to release: today's conflist may lead
/// to another directory.
fn must_be_gone(node: &Node, it: &Attached<'_>) -> Result<()> {
    let placed = it
        .holdings
        .iter()
        .filter_map(|it| Some((it.directory?, it.ip?)));
    for (directory, ip) in placed {
        let path = directory.path.join(ip.to_string());
        let left = match &directory.shared_by {
            None => reservations::view::address(&directory.path, ip)
                .with_context(|| path.display().to_string())?,
            Some(_) => shared_address(node, directory, ip)?,
        };
        let is_its = |state: &State| matches!(state, State::Reserved(holder) if holder.container_id == it.container);
        ensure!(
            !left.is_some_and(|left| is_its(&left.state)),
            "{}: DEL has succeeded, and {} is still there: the chain does not keep its \
             addresses there",
            it.describe(),
            path.display()
        );
    }
    Ok(())
}

/// An address of this node, as etcd has it.
fn shared_address(node: &Node, directory: &Directory, ip: IpAddr) -> Result<Option<ListedAddress>> {
    let name = directory.name.as_str();
    let mut clusters = node.clusters.iter();
    let cluster = clusters
        .find(|it| it.directory(name) == directory.path)
        .with_context(|| format!("no conflist leads to {}", directory.path.display()))?;
    let used = BTreeSet::from([directory.name.clone()]);
    let view = cluster.view(&mut cluster.engine(), used, true)?;
    let pool = view.pools.into_iter().find(|it| it.name == directory.name);
    let listed = pool.into_iter().flat_map(|it| it.listed);
    Ok(listed.into_iter().find(|it| it.ip == ip))
}

/// The configuration of the network today; without one, that of the ADD; without a record, of
/// an address in etcd, that of another network of the same cluster. Its `stateDir` is the
/// folder in which the record was found.
fn config(node: &Node, attached: &Attached<'_>) -> Result<NetworkConfig> {
    let network = node.network(attached.network);
    let today = network.map(|it| it.config.clone());
    let recorded = attached.content().and_then(AttachmentRecord::config);
    let shared = || of_cluster(node, attached);
    let Some(config) = today.or(recorded).map_or_else(shared, |it| Ok(Some(it)))? else {
        bail!(
            "{}: no conflist has this network, and there is no record; its reservation alone is \
             removed by: {}",
            attached.describe(),
            printed_command::release(node, attached)
        );
    };
    let file = attached.record.map(|it| it.listed.file.as_path());
    let of_record = file.and_then(Path::parent).and_then(Path::parent);
    match of_record.or(network.map(|it| it.state_dir.as_path())) {
        None => Ok(config),
        Some(state_dir) => Ok(with_keys(&config, |ipam| ipam.set("stateDir", state_dir))?),
    }
}

/// The configuration that leads to the cluster of an address in etcd, for the network that holds
/// it; `None` if the address is elsewhere.
fn of_cluster(node: &Node, attached: &Attached<'_>) -> Result<Option<NetworkConfig>> {
    let directories = attached.holdings.iter().filter_map(|it| it.directory);
    let mut networks = directories.filter_map(|it| it.shared_by.as_ref()?.first());
    let Some(network) = networks.find_map(|name| node.network(name.as_str())) else {
        return Ok(None);
    };
    let config = with_keys(&network.config, |ipam| {
        ipam.set("delegates", &[ETCD_ALLOCATOR]);
    })?;
    let mut object: Object = cni::read("configuration", &config.to_raw())?;
    object.set("name", attached.network);
    let bytes = serde_json::to_vec(&object).expect("an object is JSON");
    Ok(Some(NetworkConfig::parse(bytes)?))
}

/// The configuration with other keys of `ipam`.
fn with_keys(
    config: &NetworkConfig,
    change: impl FnOnce(&mut Object),
) -> Result<NetworkConfig, cni::Error> {
    let mut object: Object = cni::read("configuration", &config.to_raw())?;
    let mut ipam = config.ipam()?;
    change(&mut ipam);
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
