//! Runs chains, with our plugins linked into this process.

use std::ffi::OsString;
use std::net::IpAddr;

use chain::{Chain, Event, Observer, Plugins};
use cni::{Attachment, ContainerId, Environment, Error, IpamResult, LinkedPlugin, NetworkConfig};
use cni_plugin::Linked;
use ipam_da_host_local::IpamDaHostLocal;
use ipam_ds_ranges::IpamDsRanges;
use ipam_ds_rules::IpamDsRules;
use ipam_ds_static::IPAM_DS_STATIC;

use crate::narrowing::Narrowing;

/// The name of the interface in every attachment.
const IFNAME: &str = "eth0";

/// The network namespace that plugins are told of. An address is asked for before there
/// is one; this is the host's, which none of them enters.
const NETNS: &str = "/proc/self/ns/net";

/// Runs chains.
pub(crate) struct Chains {
    /// The environment of every call.
    environment: Environment,
}

impl Chains {
    /// Chains whose plugins are found in this `CNI_PATH`, with these variables.
    pub(crate) fn new(cni_path: &str, variables: &[(OsString, OsString)]) -> Self {
        let environment: Environment = variables.iter().cloned().collect();
        let environment = environment
            .with("CNI_PATH", cni_path)
            .with("CNI_NETNS", NETNS)
            .with("CNI_IFNAME", IFNAME);
        Self { environment }
    }

    /// ADD: gives an attachment what its chain has for it.
    ///
    /// # Errors
    ///
    /// The chain's; it leaves nothing behind then.
    pub(crate) fn add(
        &self,
        config: &NetworkConfig,
        container_id: &ContainerId,
        args: &str,
    ) -> Result<IpamResult, Error> {
        let environment = self.environment_of(container_id).with("CNI_ARGS", args);
        let plugins = Plugins::in_cni_path(&environment)?.and_linked(&LINKED);
        let chain = Chain::new(config, &environment, plugins)?.observed_by(&Log);
        let output = chain.add(&attachment(container_id)?)?;
        IpamResult::read("the chain's result", output.json())
    }

    /// DEL: takes it back. What is gone already is no error.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn del(
        &self,
        config: &NetworkConfig,
        container_id: &ContainerId,
    ) -> Result<(), Error> {
        let environment = self.environment_of(container_id);
        let plugins = Plugins::in_cni_path(&environment)?.and_linked(&LINKED);
        let chain = Chain::for_del(config, &environment, plugins)?.observed_by(&Log);
        chain.del(&attachment(container_id)?)
    }

    fn environment_of(&self, container_id: &ContainerId) -> Environment {
        let environment = self.environment.clone();
        environment.with("CNI_CONTAINERID", container_id.as_str())
    }
}

/// The variables of the process that plugins get: `PATH`, and the project's own.
pub(crate) fn for_plugins(
    process: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let is_for_plugins = |(name, _): &(OsString, OsString)| {
        let name = name.to_string_lossy();
        name == "PATH" || (name.starts_with("IPAM_DELEGATED_") && name != cni::CHAIN_CALL)
    };
    process.filter(is_for_plugins).collect()
}

/// The plugins that need no executable.
pub(crate) const LINKED: [&(dyn LinkedPlugin + 'static); 5] = [
    &Linked(&IpamDsRanges),
    &Linked(&IpamDsRules),
    &Linked(&IPAM_DS_STATIC),
    &Linked(&Narrowing),
    &Linked(&IpamDaHostLocal),
];

fn attachment(container_id: &ContainerId) -> Result<Attachment, Error> {
    let ifname = IFNAME.parse().map_err(|_| Error::environment(IFNAME))?;
    Ok(Attachment {
        container_id: container_id.clone(),
        ifname,
    })
}

/// The address of a result that is in this subnet.
pub(crate) fn address_in(result: &IpamResult, subnet: ipam::IpNet) -> Option<IpAddr> {
    let mut ips = result.ips.iter().map(cni::IpConfig::ip);
    ips.find(|ip| subnet.contains(ip))
}

/// Logs what delegates write to stderr.
pub(crate) struct Log;

impl Observer for Log {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Stderr { delegate, bytes } => {
                let text = String::from_utf8_lossy(bytes);
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    tracing::warn!(%delegate, "{line}");
                }
            }
            Event::Ended {
                delegate,
                command,
                took,
                ..
            } => tracing::trace!(%delegate, %command, ?took, "has ended"),
            Event::Started { .. } => {}
        }
    }
}
