//! Docker's whole answer, and what Docker has lost by it: what no part of the answer names. The parts
//! are all networks, with their endpoints, and the running containers. If one of them can't be read,
//! there is no answer, and nothing counts as lost.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use docker_records::records::Purpose;
use ipam::IpNet;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::docker::answers::{Endpoint, Listed, Network, Running};
use crate::docker::api::get;

/// Docker's own IPAM drivers. Under which name Docker knows this daemon, the daemon can't be sure:
/// that of its socket, or of a file in `/etc/docker/plugins`.
const DOCKERS_OWN: [&str; 2] = ["default", "null"];

/// Docker's whole answer.
#[derive(Debug, Default)]
pub(crate) struct WholeAnswer {
    /// The networks whose addresses this daemon may have given.
    networks: Vec<Network>,
    /// The IDs of all networks.
    network_ids: BTreeSet<String>,
    /// The IDs of all endpoints, of networks and of running containers.
    endpoint_ids: BTreeSet<String>,
    /// Addresses of containers, as the networks or the containers list them. Those in networks of
    /// Docker's own IPAM drivers are not among them.
    ips: BTreeSet<IpAddr>,
    /// The addresses of running containers in networks that Docker has lost (live-restore).
    ips_of_lost: BTreeSet<IpAddr>,
}

impl WholeAnswer {
    /// Asks Docker on this socket.
    ///
    /// # Errors
    ///
    /// Docker doesn't answer in this time, or not as expected, or a part of the answer is missing.
    pub(crate) fn ask(socket: &Path, at_most: Duration) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let asked = async { timeout(at_most, Self::ask_all(socket)).await };
        runtime.block_on(asked).context("no answer in time")?
    }

    async fn ask_all(socket: &Path) -> Result<Self> {
        let listed: Option<Vec<Listed>> = get(socket, "/networks").await?;
        let mut networks = Vec::new();
        for Listed { id } in listed.unwrap_or_default() {
            // A network that is removed meanwhile is an error: what it had isn't lost yet.
            let network: Network = get(socket, &format!("/networks/{id}")).await?;
            networks.push(Network { id, ..network });
        }
        let running: Option<Vec<Running>> = get(socket, "/containers/json").await?;
        Ok(Self::new(networks, &running.unwrap_or_default()))
    }

    pub(crate) fn new(networks: Vec<Network>, running: &[Running]) -> Self {
        let mut all = Self::default();
        let mut of_dockers = BTreeSet::new();
        for network in networks {
            all.network_ids.insert(network.id.clone());
            let endpoints = network.containers.values();
            let ids = endpoints.map(|endpoint| endpoint.endpoint_id.clone());
            all.endpoint_ids.extend(ids);
            if DOCKERS_OWN.contains(&network.ipam.driver.as_str()) {
                of_dockers.insert(network.id);
            } else {
                let endpoints = network.containers.values();
                all.ips.extend(endpoints.flat_map(Endpoint::ips));
                all.networks.push(network);
            }
        }
        let lists = running.iter().map(|one| &one.network_settings.networks);
        for endpoint in lists.flat_map(|networks| networks.values().flatten()) {
            all.endpoint_ids.insert(endpoint.endpoint_id.clone());
            if of_dockers.contains(&endpoint.network_id) {
                continue;
            }
            all.ips.extend(endpoint.ips());
            if !all.network_ids.contains(&endpoint.network_id) {
                all.ips_of_lost.extend(endpoint.ips());
            }
        }
        all
    }

    /// True if no part of the answer names a reserved address of a pool of this subnet.
    pub(crate) fn has_lost(&self, purpose: Purpose, subnet: IpNet, ip: IpAddr) -> bool {
        // A lost network shows neither its subnet nor its gateway, and its containers need both.
        let is_of_lost_network = self.ips_of_lost.iter().any(|ip| subnet.contains(ip));
        let networks = &self.networks;
        let mut configs = networks.iter().flat_map(|network| &network.ipam.config);
        let mut own = networks.iter().flat_map(Network::ips);
        let mut is_named = || self.ips.contains(&ip) || own.any(|own| own == ip);
        match purpose {
            Purpose::Container => !is_named(),
            Purpose::Subnet => {
                let has_subnet = configs.any(|config| config.subnet == Some(subnet));
                !is_of_lost_network && !has_subnet
            }
            // Docker shows a gateway only if the user has chosen it, or no subnet.
            Purpose::Gateway => {
                let may_have_it = configs.any(|config| {
                    config.subnet == Some(subnet)
                        && config.gateway.0.is_none_or(|gateway| gateway == ip)
                });
                !is_of_lost_network && !may_have_it && !is_named()
            }
        }
    }

    /// True if no part of the answer names this endpoint.
    pub(crate) fn has_lost_endpoint(&self, id: &str) -> bool {
        !self.endpoint_ids.contains(id)
    }

    /// True if Docker doesn't list this network.
    pub(crate) fn has_lost_network(&self, id: &str) -> bool {
        !self.network_ids.contains(id)
    }
}

#[cfg(test)]
mod tests;
