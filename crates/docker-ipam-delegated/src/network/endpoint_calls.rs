//! Docker's calls for endpoints. Each endpoint has a separate namespace, in which the network
//! configuration's plugins make the interface that Docker takes into the container.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use chain::OwnRecord;
use cni::NetworkConfig;
use ipam::IpNet;
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::conflists;
use crate::ipam::facts;
use crate::network::cni_result::CniResult;
use crate::network::endpoint_answers::{joined, offered};
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::{CreateEndpoint, Interface, OfEndpoint};
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::endpoint::{Endpoint, Network};
use crate::state::files::UNWRITTEN;
use crate::state::pool::network_config;
use crate::state::record::Plugged;
use crate::threads::lock;

impl NetworkDriver {
    /// `CreateEndpoint`.
    ///
    /// # Errors
    ///
    /// The endpoint exists; or a plugin's error, after all plugins have been undone.
    pub(crate) fn create_endpoint(self: &Arc<Self>, request: CreateEndpoint) -> Result<Answer> {
        let network = self.network(&request.of.network_id)?;
        self.collect();
        let id = request.of.endpoint_id;
        ensure!(
            !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "EndpointID: {id:?} is no ID"
        );
        let of_network = || format!("network {}", network.conflist);
        let list = conflists::find(&self.conf_dir, &network.conflist)?;
        let list = network_config(&list)?;
        plugin_list::find_all(&list, &self.environment).with_context(of_network)?;
        let endpoint = new_endpoint(&network, list, &id, &request.interface);
        let live = LiveEndpoint::new(endpoint.clone());
        let calls = Arc::clone(&live.calls);
        let call_of_this = lock(&calls);
        let is_new = self.endpoints.add(live);
        ensure!(is_new, "EndpointID: {id} exists already");
        lock(&self.taken).insert(endpoint.container_id());
        let record = self.begin_record(&endpoint).inspect_err(|_| {
            // Nothing was made.
            self.endpoints.remove(&id);
        })?;
        let made = self.make(&record, endpoint, &request.interface);
        drop(record);
        // If the network was deleted meanwhile, this endpoint must not stay.
        let made = made.and_then(|answer| self.network(&network.id).map(|_| answer));
        drop(call_of_this);
        let answer = made.with_context(of_network);
        let answer = answer.inspect_err(|error| self.abandon(&id, &message(error)))?;
        let driver = Arc::clone(self);
        Ok(answer.then(move |is_delivered| {
            if !is_delivered {
                driver.abandon(
                    &id,
                    "Docker closed the connection before it got this endpoint",
                );
            }
        }))
    }

    /// Makes an endpoint, and returns the answer.
    fn make(
        &self,
        record: &OwnRecord,
        mut endpoint: Endpoint,
        interface: &Interface,
    ) -> Result<Answer> {
        let execution = self.execution(Some(record));
        let id = endpoint.plugged.id.clone();
        Namespace::of(&id).make(&execution)?;
        let results = plugin_list::add(&execution, &endpoint)?;
        endpoint.result = results.last().cloned();
        let result = read_result(&endpoint);
        // The undo needs the result, also if it can't be read or written below.
        self.endpoints.change(&id, |live| {
            live.endpoint = endpoint;
            live.since = Instant::now();
        });
        let interface = offered(interface, &result?);
        record.added(&results).context(UNWRITTEN)?;
        Ok(Answer::of(&json!({"Interface": interface})))
    }

    /// `DeleteEndpoint`. An unknown endpoint counts as deleted.
    ///
    /// # Errors
    ///
    /// Those of the failed plugins.
    pub(crate) fn delete_endpoint(&self, request: &OfEndpoint) -> Result<Answer> {
        self.end_endpoint(&request.endpoint_id)?;
        Ok(Answer::nothing())
    }

    /// `EndpointOperInfo`: the result of the plugins.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown.
    pub(crate) fn endpoint_info(&self, request: &OfEndpoint) -> Result<Answer> {
        let Endpoint { netns, result, .. } = self.endpoint(request)?.endpoint;
        let value = json!({"namespace": netns, "result": result});
        Ok(Answer::of(&json!({"Value": value})))
    }

    /// `Join`: moves the interface to the host's namespace, from which Docker takes it.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown, or the interface can't be moved.
    pub(crate) fn join(self: &Arc<Self>, request: &OfEndpoint) -> Result<Answer> {
        let LiveEndpoint { calls, .. } = self.endpoint(request)?;
        let _call = lock(&calls);
        // Looked up again: the endpoint may have ended during the wait for the lock.
        let endpoint = self.endpoint(request)?.endpoint;
        let id = endpoint.plugged.id.clone();
        let mut result = read_result(&endpoint)?;
        let is_internal = self.network(&endpoint.plugged.network)?.is_internal;
        let record = self.lock_endpoint(&endpoint)?;
        let namespace = Namespace::of(&id);
        namespace.move_out(&self.execution(record.as_ref()))?;
        if is_internal {
            result.routes.retain(|route| route.dst.prefix_len() > 0);
        }
        let joined = joined(&result, namespace.outside());
        let driver = Arc::clone(self);
        Ok(Answer::of(&joined).then(move |is_delivered| {
            if !is_delivered && let Err(error) = driver.take_back(&id) {
                tracing::warn!(error = %message(&error), endpoint = id, "the interface can't be moved back");
            }
        }))
    }

    /// `Leave`. Docker calls it before it gives the interface back, and `DeleteEndpoint`
    /// after that.
    ///
    /// # Errors
    ///
    /// The interface can't be moved back.
    pub(crate) fn leave(&self, request: &OfEndpoint) -> Result<Answer> {
        self.take_back(&request.endpoint_id)?;
        Ok(Answer::nothing())
    }

    /// Moves the interface of an endpoint back into the endpoint's own namespace.
    fn take_back(&self, id: &str) -> Result<()> {
        let Some(live) = self.endpoints.get(id) else {
            return Ok(());
        };
        let _call = lock(&live.calls);
        if self.endpoints.same(&live).is_none() {
            return Ok(());
        }
        let record = self.lock_endpoint(&live.endpoint)?;
        Namespace::of(id).move_back(&self.execution(record.as_ref()))
    }

    /// The endpoint that a call names, if it is made completely.
    fn endpoint(&self, request: &OfEndpoint) -> Result<LiveEndpoint> {
        self.network(&request.network_id)?;
        let id = &request.endpoint_id;
        let live = self.endpoints.get(id);
        let is_of_call = |live: &LiveEndpoint| {
            let Endpoint {
                plugged, result, ..
            } = &live.endpoint;
            plugged.network == request.network_id && result.is_some()
        };
        live.filter(is_of_call).with_context(|| {
            format!("EndpointID: {id:?} is no endpoint that was created and not deleted")
        })
    }
}

/// The result of an endpoint's plugins.
fn read_result(endpoint: &Endpoint) -> Result<CniResult> {
    let result = endpoint.result.as_deref();
    CniResult::read(result.context("the plugins' result is not known")?)
}

/// The endpoint of this ID in a network, with this network configuration.
fn new_endpoint(
    network: &Network,
    config: NetworkConfig,
    id: &str,
    interface: &Interface,
) -> Endpoint {
    let mac = &interface.mac_address;
    let addresses = [&interface.address, &interface.address_v6].into_iter();
    let addresses = addresses.filter(|address| !address.is_empty());
    let with_gateway = |address: &String| {
        let gateway = gateway_of(network, address).unwrap_or_default();
        (address.clone(), gateway)
    };
    Endpoint {
        plugged: Plugged {
            id: id.to_owned(),
            network: network.id.clone(),
            mac: mac.clone(),
            addresses: addresses.map(with_gateway).collect(),
        },
        config,
        netns: Namespace::of(id).path(),
        args: facts::cni_args(&network.facts, mac),
        result: None,
    }
}

/// The gateway of an address's subnet, if Docker has given the network one.
fn gateway_of(network: &Network, address: &str) -> Option<String> {
    let net: IpNet = address.parse().ok()?;
    let gateways = network.gateways.iter();
    let mut gateways = gateways.filter_map(|text| Some(text.parse::<IpNet>().ok()?.addr()));
    let gateway = gateways.find(|gateway| net.contains(gateway))?;
    Some(gateway.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_dockers_has_the_gateway_of_its_subnet() {
        let network = Network {
            id: "n".to_owned(),
            conflist: "web".to_owned(),
            facts: [("team".to_owned(), "shop".to_owned())].into(),
            gateways: vec!["10.1.0.1/24".to_owned(), "10.2.0.1/24".to_owned()],
            is_internal: false,
        };
        let interface = Interface {
            address: "10.2.0.7/24".to_owned(),
            mac_address: "02:42:00:00:00:01".to_owned(),
            ..Interface::default()
        };
        let config = br#"{"cniVersion":"1.0.0","name":"web"}"#;
        let config = NetworkConfig::parse(config.to_vec()).unwrap();
        let endpoint = new_endpoint(&network, config, "e", &interface);
        assert_eq!(
            endpoint.plugged.addresses,
            [("10.2.0.7/24".to_owned(), "10.2.0.1".to_owned())]
        );
        assert_eq!(
            endpoint.args,
            "IgnoreUnknown=1;team=shop;MAC=02:42:00:00:00:01"
        );
        assert_eq!(
            (endpoint.container_id().as_str(), endpoint.netns.as_str()),
            ("docker-e", "/run/netns/docker-e")
        );
    }
}
