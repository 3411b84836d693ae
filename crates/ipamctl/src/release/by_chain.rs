//! Releases an attachment through its chain, in this process, as ipam-delegated does it.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use chain::record::AttachmentRecord;
use chain::{Chain, Plugins, Released};
use cluster::{Holder, Key};
use cni::{Environment, NetworkConfig, Object};
use docker_ipam_delegated::docker::plugin_calls::delete_endpoint;
use docker_ipam_delegated::linked_plugins::LINKED;
use reservations::State;

use crate::node::{Directory, NetworkAttachment, Node};
use crate::release::printed_command::release_command;
use crate::release::releaser::Releaser;

/// Variables of a runtime's call, which are not passed on.
const OF_CALLS: [&str; 5] = [
    "CNI_COMMAND",
    "CNI_CONTAINERID",
    "CNI_IFNAME",
    "CNI_NETNS",
    "CNI_ARGS",
];

impl Releaser<'_> {
    /// Runs DEL for an attachment: by its record, or by today's conflist. An endpoint of
    /// Docker's is undone by `docker-ipam-delegated`.
    ///
    /// `refuse` gets the record while the attachment is locked, and may return a reason not
    /// to release it. A reservation without an interface is released by its file: DEL of any
    /// interface could release another address of the container.
    ///
    /// # Errors
    ///
    /// The chain's; if there is neither a conflist nor a record; and if an address is still
    /// reserved afterwards.
    pub(crate) fn release(
        &self,
        attachment: &NetworkAttachment<'_>,
        refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
    ) -> Result<Released> {
        let (node, docker) = (self.node, attachment.docker());
        // Its interface is to go, too.
        if let Some(endpoint) = docker.and_then(|holder| holder.endpoint.as_ref()) {
            let plugin = &node.places.docker.docker_plugin;
            delete_endpoint(plugin, &endpoint.network, &endpoint.endpoint)?;
            return Ok(Released::Done);
        }
        if attachment.ifname.is_none() {
            if let Some(reason) = refuse(None) {
                return Ok(Released::Refused(reason));
            }
            for held in &attachment.addresses {
                self.remove_file(held)?;
            }
            return Ok(Released::Done);
        }
        let id = attachment.attachment().map_err(anyhow::Error::msg)?;
        if let Some(error) = self.is_over() {
            return Err(error);
        }
        let config = config(node, attachment)?;
        let variables = node.environment.iter();
        let of_chain =
            variables.filter(|(name, _)| !OF_CALLS.iter().any(|of_call| name == of_call));
        let environment: Environment = of_chain
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut plugins = Plugins::in_cni_path(&environment).context("--cni-path")?;
        // The daemon runs them in its process, and needs no executables of them.
        if docker.is_some() {
            plugins = plugins.and_linked(LINKED);
        }
        let chain = Chain::for_del(&config, &environment, plugins)?.released_until(&self.deadline);
        let released = chain.release(&id, self.when_busy, refuse);
        let mut released = released.map_err(anyhow::Error::from);
        if let Some(error) = self.is_over() {
            released = released.context(error);
        }
        if attachment.record.is_none() {
            released = released.context("without a record");
        }
        let released = released?;
        if released == Released::Done {
            must_be_gone(node, attachment)?;
        }
        Ok(released)
    }
}

/// Verifies that no address is reserved any more: today's conflist may lead to another
/// directory.
fn must_be_gone(node: &Node, attachment: &NetworkAttachment<'_>) -> Result<()> {
    for held in &attachment.addresses {
        let (Some(directory), Some(ip)) = (held.directory, held.ip) else {
            continue;
        };
        let path = directory.path_of(ip);
        let container = match &directory.shared_by {
            None => {
                let left = reservations::view::address(&directory.path, ip);
                let left = left.with_context(|| path.display().to_string())?;
                left.and_then(|left| match left.state {
                    State::Reserved(holder) => Some(holder.container_id),
                    _ => None,
                })
            }
            Some(_) => shared_holder(node, directory, ip)?,
        };
        ensure!(
            container.is_none_or(|container| container != attachment.container),
            "{attachment}: DEL has succeeded, and {} is still there: the chain does not keep its \
             addresses there",
            path.display()
        );
    }
    Ok(())
}

/// The container on this node that holds an address in a cluster.
fn shared_holder(node: &Node, directory: &Directory, ip: IpAddr) -> Result<Option<String>> {
    let pool = directory.name.as_str();
    let mut clusters = node.clusters.iter();
    let cluster = clusters
        .find(|cluster| cluster.directory(pool) == directory.path)
        .with_context(|| format!("no conflist leads to {}", directory.path.display()))?;
    let stored = cluster.engine().get(Key::Address(pool.to_owned(), ip))?;
    let holder = stored.and_then(|stored| Holder::parse(&stored.value));
    let holder = holder.filter(|holder| holder.node == cluster.node().name);
    Ok(holder.map(|holder| holder.container_id))
}

/// The configuration of the network today; without one, that of the ADD; without a record, of
/// an address that a cluster keeps, that of another network of the same cluster. Its `stateDir` is the
/// folder in which the record was found.
fn config(node: &Node, attachment: &NetworkAttachment<'_>) -> Result<NetworkConfig> {
    let network = node.network(attachment.network);
    let today = network.map(|network| network.config.clone());
    let recorded = || attachment.content().and_then(AttachmentRecord::config);
    let config = match today.or_else(recorded) {
        Some(config) => Some(config),
        None => of_cluster(node, attachment)?,
    };
    let Some(config) = config else {
        bail!(
            "{attachment}: no conflist has this network, and there is no record; the file of its \
             reservation is removed by: {}",
            release_command(node, attachment)
        );
    };
    let file = attachment.record.map(|record| record.file.as_path());
    let of_record = file.and_then(Path::parent).and_then(Path::parent);
    match of_record.or(network.map(|network| network.state_dir.as_path())) {
        None => Ok(config),
        Some(state_dir) => with_keys(&config, |_, ipam| ipam.set("stateDir", state_dir)),
    }
}

/// The configuration that leads to the cluster that keeps an address, for the network that holds
/// it; `None` for an address that no cluster keeps.
fn of_cluster(node: &Node, attachment: &NetworkAttachment<'_>) -> Result<Option<NetworkConfig>> {
    let directories = attachment
        .addresses
        .iter()
        .filter_map(|held| held.directory);
    let mut networks = directories.filter_map(|directory| directory.shared_by.as_ref()?.first());
    let Some(network) = networks.find_map(|name| node.network(name.as_str())) else {
        return Ok(None);
    };
    let Some((kind, _)) = &network.cluster else {
        return Ok(None);
    };
    let config = with_keys(&network.config, |object, ipam| {
        object.set("name", attachment.network);
        ipam.set("delegates", &[kind.allocator]);
    })?;
    Ok(Some(config))
}

/// The configuration with changed keys, at its top level and in `ipam`.
fn with_keys(
    config: &NetworkConfig,
    change: impl FnOnce(&mut Object, &mut Object),
) -> Result<NetworkConfig> {
    let mut object: Object = cni::read("configuration", &config.to_raw())?;
    let mut ipam = config.ipam()?;
    change(&mut object, &mut ipam);
    object.set("ipam", &ipam);
    Ok(NetworkConfig::parse(serde_json::to_vec(&object)?)?)
}
