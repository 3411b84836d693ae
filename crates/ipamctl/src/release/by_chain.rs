//! Releases an attachment through its chain, in this process, as ipam-delegated does it.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use chain::record::AttachmentRecord;
use chain::{Chain, Plugins, Released};
use cluster::{Holder, Key};
use cni::{Environment, NetworkConfig};
use docker_ipam_delegated::docker::plugin_calls::delete_endpoint;
use docker_ipam_delegated::linked_plugins::LINKED;
use reservations::State;

use crate::node::network::with_keys;
use crate::node::{NetworkAttachment, Node};
use crate::release::printed_command::release_command;
use crate::release::releaser::Releaser;

/// Variables of a runtime's call. They are not passed on.
const OF_CALLS: [&str; 5] = [
    "CNI_COMMAND",
    "CNI_CONTAINERID",
    "CNI_IFNAME",
    "CNI_NETNS",
    "CNI_ARGS",
];

impl Releaser<'_> {
    /// Runs DEL for an attachment, by its record or by the current conflist.
    /// `docker-ipam-delegated` undoes an endpoint of Docker.
    ///
    /// `refuse` gets the record while the attachment is locked, and may return a reason not to
    /// release it. Of a reservation without an interface, only the file is removed: DEL of an
    /// interface could release another address of the container.
    ///
    /// # Errors
    ///
    /// An error of the chain; neither a conflist nor a record; an address that is still reserved
    /// afterwards.
    pub(crate) fn release(
        &self,
        attachment: &NetworkAttachment<'_>,
        refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
    ) -> Result<Released> {
        let (node, docker) = (self.node, attachment.docker());
        // Its interface must be removed, too.
        if let Some(endpoint) = docker.and_then(|holder| holder.endpoint.as_ref()) {
            let plugin = &node.places.docker_plugin;
            delete_endpoint(plugin, &endpoint.network, &endpoint.id)?;
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
        let variables = variables.filter(|(name, _)| OF_CALLS.iter().all(|known| name != known));
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment: Environment = variables.collect();
        let mut plugins = Plugins::in_cni_path(&environment).context("--cni-path")?;
        // The daemon has them linked in, so their executables may be missing.
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
            must_be_gone(attachment)?;
        }
        Ok(released)
    }
}

/// Verifies that no address is reserved any more: the current conflist may name another directory.
fn must_be_gone(attachment: &NetworkAttachment<'_>) -> Result<()> {
    for held in &attachment.addresses {
        let (Some(directory), Some(ip)) = (held.directory, held.ip) else {
            continue;
        };
        let path = directory.path_of(ip);
        let container = match &directory.cluster {
            None => {
                let left = reservations::view::address(&directory.path, ip);
                let left = left.with_context(|| path.display().to_string())?;
                left.and_then(|left| match left.state {
                    State::Reserved(holder) => Some(holder.container_id),
                    _ => None,
                })
            }
            Some(cluster) => {
                let key = Key::Address(directory.name.to_string(), ip);
                let stored = cluster.engine().get(key)?;
                let holder = stored.and_then(|stored| Holder::parse(&stored.value));
                let of_node = holder.filter(|holder| holder.node == cluster.node().name);
                of_node.map(|holder| holder.container_id)
            }
        };
        let why = match &directory.cluster {
            None => "the chain does not keep its addresses there",
            Some(_) => {
                "no plugin of this node has created it, or the chain does not keep its addresses \
                 there; if its container has ended, delete it with the engine's own tool, such as \
                 kubectl"
            }
        };
        ensure!(
            container.is_none_or(|container| container != attachment.container),
            "{attachment}: DEL has succeeded, and {} is still there: {why}",
            path.display()
        );
    }
    Ok(())
}

/// The network's current configuration; without one, that of the ADD; without a record, for an
/// address in a cluster, that of another network of the cluster. Its `stateDir` is the folder of
/// the record.
fn config(node: &Node, attachment: &NetworkAttachment<'_>) -> Result<NetworkConfig> {
    let network = node.network(attachment.network);
    let today = network.map(|network| network.config.clone());
    let recorded = || attachment.content().and_then(AttachmentRecord::config);
    let config = match today.or_else(recorded) {
        Some(config) => Some(config),
        None => of_cluster(attachment)?,
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
        Some(state_dir) => Ok(with_keys(&config, |_, ipam| {
            ipam.set("stateDir", state_dir);
        })?),
    }
}

/// The configuration of another network of the address's cluster, changed to this network;
/// `None` for an address on this node.
fn of_cluster(attachment: &NetworkAttachment<'_>) -> Result<Option<NetworkConfig>> {
    let mut directories = attachment
        .addresses
        .iter()
        .filter_map(|held| held.directory);
    let found = directories.find_map(|directory| {
        let cluster = directory.cluster.as_ref()?;
        Some((cluster.kind, cluster.config.as_ref()?))
    });
    let config = found.map(|(kind, config)| {
        with_keys(config, |object, ipam| {
            object.set("name", attachment.network);
            ipam.set("delegates", &[kind.allocator]);
        })
    });
    Ok(config.transpose()?)
}
