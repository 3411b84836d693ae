//! Docker's calls for endpoints. Each endpoint has a separate namespace, in which the network
//! configuration's plugins make the interface that Docker takes into the container.
//!
//! `CreateEndpoint` begins the record, makes the namespace and runs the plugins; `Join` moves the
//! interface to the host's namespace, `Leave` back; `DeleteEndpoint` undoes all of it (`undo`). The
//! record is first and last, so what a killed daemon has made is undone by the next one.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use chain::OwnRecord;
use chain::record::{ListedRecord, networks, record_of};
use cni::NetworkConfig;
use docker_records::records::{CallerLine, EndpointLine, PortMapping};
use ipam::IpNet;
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::chain_config::parse;
use crate::ipam::conflists;
use crate::ipam::facts;
use crate::network::cni_result::CniResult;
use crate::network::endpoint::{Endpoint, attachment};
use crate::network::endpoint_answers::{joined, offered};
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::{EndpointCall, Interface};
use crate::network::network_driver::{Network, NetworkDriver};
use crate::network::plugin_list;
use crate::network::ports;
use crate::threads::lock;

impl NetworkDriver {
    /// `CreateEndpoint`.
    ///
    /// # Errors
    ///
    /// The endpoint exists; a port can't be published; or a plugin's error, after all plugins have
    /// been undone.
    pub(crate) fn create_endpoint(self: &Arc<Self>, request: &EndpointCall) -> Result<Answer> {
        let network = self.network(&request.network_id)?;
        let of_network = || format!("network {}", network.conflist);
        let list = conflists::find(&self.conf_dir, &network.conflist)?;
        let list = parse(&list.as_list())?;
        plugin_list::find_all(&list, &self.environment).with_context(of_network)?;
        let ports = ports::published(&request.options).with_context(of_network)?;
        ensure!(
            ports.is_empty() || plugin_list::publishes_ports(&list)?,
            "network {}: ports can't be published (-p): its configuration has no plugin with the \
             capability portMappings, such as portmap",
            network.conflist
        );
        let mut endpoint = new_endpoint(&network, list, request, ports);
        let record = self.begin(&endpoint).with_context(of_network)?;
        let made = self.make(&record, &mut endpoint, &request.interface);
        drop(record);
        // If the network was deleted meanwhile, this endpoint must not stay.
        let made = made.and_then(|answer| self.network(&request.network_id).map(|_| answer));
        let name = endpoint.config.name().clone();
        let id = request.endpoint_id.clone();
        let answer = made.with_context(of_network);
        let answer = answer.inspect_err(|error| self.abandon(&name, &id, &message(error)))?;
        let driver = Arc::clone(self);
        Ok(answer.then(move |is_delivered| {
            if !is_delivered {
                let why = "Docker closed the connection before it got this endpoint";
                driver.abandon(&name, &id, why);
            }
        }))
    }

    /// Creates the record of an endpoint, unless another one publishes a port of the same number.
    fn begin(&self, endpoint: &Endpoint) -> Result<OwnRecord> {
        let ports = &endpoint.line.ports;
        // Until the record is written, no other endpoint is created with a port.
        let _publishing = (!ports.is_empty()).then(|| lock(&self.publishing));
        if !ports.is_empty() {
            ports::refuse_published(ports, &self.endpoints()?)?;
        }
        let environment = self.environment.clone();
        Ok(OwnRecord::begin(
            &self.records,
            &endpoint.config,
            &attachment(&endpoint.line.id)?,
            &plugin_list::names(&endpoint.config)?,
            &environment
                .with("CNI_NETNS", Namespace::of(&endpoint.line.id).path())
                .with("CNI_ARGS", &endpoint.args),
            CallerLine::Endpoint(endpoint.line.clone()).to_raw(),
        )?)
    }

    /// Makes an endpoint, and returns the answer.
    fn make(
        &self,
        record: &OwnRecord,
        endpoint: &mut Endpoint,
        interface: &Interface,
    ) -> Result<Answer> {
        let execution = self.execution(Some(record));
        Namespace::of(&endpoint.line.id).make(&execution)?;
        let results = plugin_list::add(&execution, endpoint)?;
        endpoint.result = results.last().cloned();
        let interface = offered(interface, &read_result(endpoint)?);
        record
            .note_added(&results)
            .context("the daemon's state can't be written")?;
        Ok(Answer::of(&json!({"Interface": interface})))
    }

    /// `DeleteEndpoint`. An unknown endpoint counts as deleted.
    ///
    /// # Errors
    ///
    /// Those of the failed plugins.
    pub(crate) fn delete_endpoint(&self, request: &EndpointCall) -> Result<Answer> {
        let id = &request.endpoint_id;
        if let Some(record) = self.record_of(id)? {
            self.end_endpoint(&record.network, id)?;
        }
        Ok(Answer::nothing())
    }

    /// `EndpointOperInfo`: the result of the plugins.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown.
    pub(crate) fn endpoint_info(&self, request: &EndpointCall) -> Result<Answer> {
        let Endpoint { line, result, .. } = self.endpoint(request)?;
        let value = json!({"namespace": Namespace::of(&line.id).path(), "result": result});
        Ok(Answer::of(&json!({"Value": value})))
    }

    /// `Join`: moves the interface to the host's namespace, from which Docker takes it.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown, or the interface can't be moved.
    pub(crate) fn join(&self, request: &EndpointCall) -> Result<Answer> {
        let network = self.endpoint(request)?.config.name().clone();
        let id = request.endpoint_id.clone();
        let record = OwnRecord::open(&self.records, &network, &attachment(&id)?)?;
        // Read again: the endpoint may have ended during the wait for the lock.
        let endpoint = self.endpoint(request)?;
        let mut result = read_result(&endpoint)?;
        let namespace = Namespace::of(&id);
        namespace.move_out(&self.execution(record.as_ref()))?;
        drop(record);
        if self.network(&request.network_id)?.is_internal {
            result.routes.retain(|route| route.dst.prefix_len() > 0);
        }
        Ok(Answer::of(&joined(&result, &namespace.outside)))
    }

    /// `Leave`. Docker calls it before it gives the interface back, and `DeleteEndpoint`
    /// after that.
    ///
    /// # Errors
    ///
    /// The interface can't be moved back.
    pub(crate) fn leave(&self, request: &EndpointCall) -> Result<Answer> {
        let id = &request.endpoint_id;
        if let Some(listed) = self.record_of(id)?
            && let Some(record) =
                OwnRecord::open(&self.records, &listed.network, &listed.attachment)?
        {
            Namespace::of(id).move_back(&self.execution(Some(&record)), &[])?;
        }
        Ok(Answer::nothing())
    }

    /// The endpoint that a call names, if it is made completely.
    fn endpoint(&self, request: &EndpointCall) -> Result<Endpoint> {
        self.network(&request.network_id)?;
        let id = &request.endpoint_id;
        let endpoint = self.record_of(id)?.map(Endpoint::of).transpose()?;
        let is_of_call =
            |endpoint: &Endpoint| endpoint.line.network == request.network_id && endpoint.is_made;
        endpoint.filter(is_of_call).with_context(|| {
            format!("EndpointID: {id:?} is no endpoint that was created and not deleted")
        })
    }

    /// The record of an endpoint; `None` if it has none.
    fn record_of(&self, id: &str) -> Result<Option<ListedRecord>> {
        let attachment = attachment(id)?;
        let folder = |network: &str| self.records.join(network).display().to_string();
        for network in networks(&self.records).with_context(|| folder(""))? {
            let found = record_of(&self.records, &network, &attachment);
            if let Some(record) = found.with_context(|| folder(network.as_str()))? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

/// The result of an endpoint's plugins.
fn read_result(endpoint: &Endpoint) -> Result<CniResult> {
    let result = endpoint.result.as_deref();
    CniResult::read(result.context("the plugins' result is not known")?)
}

/// A new endpoint in a network, with this network configuration.
fn new_endpoint(
    network: &Network,
    config: NetworkConfig,
    request: &EndpointCall,
    ports: Vec<PortMapping>,
) -> Endpoint {
    let interface = &request.interface;
    let addresses = [&interface.address, &interface.address_v6].into_iter();
    let addresses = addresses.filter(|address| !address.is_empty());
    let with_gateway = |address: &String| {
        let gateway = gateway_of(network, address).unwrap_or_default();
        (address.clone(), gateway)
    };
    Endpoint {
        line: EndpointLine {
            id: request.endpoint_id.clone(),
            network: request.network_id.clone(),
            mac: interface.mac_address.clone(),
            addresses: addresses.map(with_gateway).collect(),
            ports,
        },
        config,
        args: facts::cni_args(&network.options, None),
        result: None,
        is_made: false,
        added: SystemTime::now(),
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;
    use crate::command_line::CommandLine;
    use crate::http::body;

    #[test]
    fn the_deletion_of_a_network_waits_for_one_endpoint_that_cannot_be_undone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let deletions = path("deletions");
        let script = format!("#!/bin/sh\necho >>{}\nexit 1", deletions.display());
        fs::write(path("failing"), script).unwrap();
        fs::set_permissions(path("failing"), Permissions::from_mode(0o755)).unwrap();
        let state = format!("--state-dir={}", path("state").display());
        let cni_path = format!("--cni-path={}", folder.path().display());
        let arguments = CommandLine::parse_from(["daemon", &state, &cni_path]);
        let driver = NetworkDriver::new(&arguments).unwrap();
        let list = br#"{"cniVersion":"1.0.0","name":"web","plugins":[{"type":"failing"}]}"#;
        let list = NetworkConfig::parse(list.to_vec()).unwrap();
        for id in ["e1", "e2", "e3"] {
            let call = EndpointCall {
                network_id: "n1".to_owned(),
                endpoint_id: id.to_owned(),
                ..EndpointCall::default()
            };
            let endpoint = new_endpoint(&Network::default(), list.clone(), &call, Vec::new());
            driver.begin(&endpoint).unwrap();
        }
        let deletion = body::decode(r#"{"NetworkID":"n1"}"#).unwrap();
        let deleted = driver.delete_network(&deletion);
        let refused = deleted.err().unwrap().to_string();
        assert!(refused.starts_with("failing: "), "{refused}");
        assert_eq!(fs::read(deletions).unwrap(), b"\n");
        assert_eq!(lock(&driver.unfinished).len(), 3);
    }

    #[test]
    fn an_address_of_dockers_has_the_gateway_of_its_subnet() {
        let network = Network {
            conflist: "web".to_owned(),
            options: [("team".to_owned(), "shop".to_owned())].into(),
            gateways: vec!["10.1.0.1/24".to_owned(), "10.2.0.1/24".to_owned()],
            ..Network::default()
        };
        let interface = Interface {
            address: "10.2.0.7/24".to_owned(),
            ..Interface::default()
        };
        let config = br#"{"cniVersion":"1.0.0","name":"web"}"#;
        let config = NetworkConfig::parse(config.to_vec()).unwrap();
        let call = EndpointCall {
            endpoint_id: "e".to_owned(),
            interface,
            ..EndpointCall::default()
        };
        let endpoint = new_endpoint(&network, config, &call, Vec::new());
        assert_eq!(
            endpoint.line.addresses,
            [("10.2.0.7/24".to_owned(), "10.2.0.1".to_owned())]
        );
        assert_eq!(endpoint.args, "IgnoreUnknown=1;team=shop");
        let names = (endpoint.container_id(), Namespace::of("e").path());
        assert_eq!(names.0, "docker-e");
        assert_eq!(names.1, "/run/netns/docker-e");
    }
}
