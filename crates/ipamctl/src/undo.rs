//! Release of an attachment through its chain, in this process, as ipam-delegated does it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use chain::tools::AttachmentRecord;
use chain::{Chain, Plugins, Released};
use cni::{Environment, NetworkConfig, Object};

use crate::attached::Attached;
use crate::node::Node;

/// Runs DEL for an attachment: by its record, or by today's conflist.
///
/// `refuse` gets the record while the attachment is locked, and may return a reason to
/// leave it alone.
///
/// # Errors
///
/// The chain's; and if there is neither a conflist nor a record.
pub(crate) fn undo(
    node: &Node,
    attached: &Attached<'_>,
    refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
) -> Result<Released> {
    let attachment = attached.attachment().map_err(anyhow::Error::msg)?;
    let config = config(node, attached)?;
    let environment = environment(node);
    let plugins = Plugins::in_cni_path(&environment).context("--cni-path")?;
    let chain = Chain::for_del(&config, &environment, plugins)?;
    chain.release(&attachment, refuse).map_err(|error| {
        let error = anyhow::Error::from(error);
        if attached.record.is_some() {
            return error;
        }
        error.context("without a record; --file-only removes the reservations alone")
    })
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
