//! Docker's calls for endpoints. An endpoint has a namespace of its own, in which the network
//! configuration's plugins make the interface that Docker takes into the container.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use crate::http::answer::{Answer, NOTHING, json};
use crate::http::body;
use crate::http::call::Call;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::lock::lock;
use crate::network::cni_result::CniResult;
use crate::network::endpoint_answers::{joined, offered};
use crate::network::endpoint_lock::EndpointLock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::{CreateEndpoint, Interface, Join, OfEndpoint};
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::endpoint::Endpoint;
use crate::state::endpoint::RuntimeConf;
use crate::state::journal::Journal;
use crate::state::network::Network;

impl NetworkDriver {
    /// `CreateEndpoint`.
    ///
    /// # Errors
    ///
    /// It is there already; a plugin's, after all have been undone.
    pub(crate) fn create_endpoint(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: CreateEndpoint = body::decode(&call.body)?;
        let network = self.network(&request.network_id)?;
        self.collect();
        let id = request.endpoint_id;
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(impossible(format!("EndpointID: {id:?} is no ID")));
        }
        if self.endpoints.get(&id).is_some() {
            return Err(impossible(format!("EndpointID: {id} is there already")));
        }
        let list = self.list_of(&network)?;
        self.plugins
            .find_all(&list)
            .map_err(|why| of_network(&network, &why))?;
        let endpoint = Endpoint {
            conf: RuntimeConf::new(&network, &id, &request.interface),
            id: id.clone(),
            network: network.id.clone(),
            list: json(&list),
            result: None,
            sandbox: None,
        };
        let file = self.endpoint_files().new_name();
        let folder = self.endpoint_files().folder();
        let mut journal = Journal::begin(folder, &file, endpoint.clone())
            .map_err(|error| cant_remember(&error))?;
        let live = LiveEndpoint::new(&file, endpoint.clone());
        let calls = Arc::clone(&live.calls);
        let call_of_this = lock(&calls);
        if !self.endpoints.add(live) {
            journal.remove();
            return Err(impossible(format!("EndpointID: {id} is there already")));
        }
        let made = self.make(&file, endpoint, &request.interface, &mut journal);
        // A network that is deleted meanwhile takes the endpoints with it that it has.
        let made = made.and_then(|answer| self.network(&network.id).map(|_| answer));
        drop(call_of_this);
        match made {
            Ok(answer) => Ok(self.made_endpoint(answer, journal, id)),
            Err(why) => {
                let why = of_network(&network, &why);
                self.abandon(&id, &why.to_string());
                Err(why)
            }
        }
    }

    /// Makes an endpoint, and returns the answer.
    fn make(
        &self,
        file: &str,
        mut endpoint: Endpoint,
        interface: &Interface,
        journal: &mut Journal<Endpoint>,
    ) -> Result<String, Refusal> {
        let lock = EndpointLock::acquire(self.endpoint_files().folder(), file)?;
        let execution = lock.execution(&self.plugins);
        Namespace::of(&endpoint.id).make(&execution)?;
        let list =
            serde_json::from_str(&endpoint.list).map_err(|error| impossible(error.to_string()))?;
        let result = plugin_list::add(&execution, &list, &endpoint.conf)?;
        endpoint.result = Some(result.get().to_owned());
        // For the undo, if the result can't be read or written.
        let id = endpoint.id.clone();
        let made = endpoint.clone();
        self.endpoints.change(&id, |it| it.endpoint = made);
        let answer = answer_of(interface, &result)?;
        let written = journal.made(endpoint);
        written.map_err(|error| cant_remember(&error))?;
        Ok(answer)
    }

    fn made_endpoint(
        self: &Arc<Self>,
        answer: String,
        mut journal: Journal<Endpoint>,
        id: String,
    ) -> Answer {
        let driver = Arc::clone(self);
        Answer::then(answer, move |is_delivered| match is_delivered {
            true => journal.answered(),
            false => driver.abandon(&id, "Docker has gone before it had this endpoint"),
        })
    }

    /// `DeleteEndpoint`. An unknown endpoint has been deleted.
    ///
    /// # Errors
    ///
    /// Those of the plugins that fail.
    pub(crate) fn delete_endpoint(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: OfEndpoint = body::decode(&call.body)?;
        self.end_endpoint(&request.endpoint_id)?;
        Ok(Answer::plain(NOTHING))
    }

    /// `EndpointOperInfo`: the result of the plugins.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown.
    pub(crate) fn endpoint_info(&self, call: &Call) -> Result<Answer, Refusal> {
        let endpoint = self.endpoint(call)?.endpoint;
        let value = json!({"namespace": endpoint.conf.netns, "result": result_of(&endpoint)?});
        Ok(Answer::plain(json!({"Value": value}).to_string()))
    }

    /// `Join`: moves the interface to where Docker takes it from.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown, or the interface can't be moved.
    pub(crate) fn join(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: Join = body::decode(&call.body)?;
        let LiveEndpoint { calls, file, .. } = self.endpoint(call)?;
        let _call = lock(&calls);
        // Again: it may have ended meanwhile.
        let endpoint = self.endpoint(call)?.endpoint;
        let mut result = CniResult::read(&result_of(&endpoint)?)?;
        let is_internal = self.network(&endpoint.network)?.is_internal;
        self.remember_sandbox(&file, endpoint.clone(), request.sandbox_key)?;
        let namespace = Namespace::of(&endpoint.id);
        let files = Arc::clone(self.endpoint_files().folder());
        let lock = EndpointLock::acquire(&files, &file)?;
        namespace.move_out(&lock.execution(&self.plugins))?;
        if is_internal {
            result.routes.retain(|it| it.to.prefix_len() > 0);
        }
        let joined = joined(&result, namespace.outside());
        let (driver, id) = (Arc::clone(self), endpoint.id);
        Ok(Answer::then(json(&joined), move |is_delivered| {
            if !is_delivered && let Err(error) = driver.take_back(&id) {
                tracing::warn!(%error, endpoint = id, "the interface can't be moved back");
            }
        }))
    }

    fn remember_sandbox(
        &self,
        file: &str,
        mut endpoint: Endpoint,
        sandbox: String,
    ) -> Result<(), Refusal> {
        endpoint.sandbox = Some(sandbox);
        Journal::open(self.endpoint_files().folder(), file)
            .and_then(|mut journal| {
                journal.made(endpoint.clone())?;
                journal.answered();
                Ok(())
            })
            .map_err(|error| cant_remember(&error))?;
        let id = endpoint.id.clone();
        self.endpoints.change(&id, |it| it.endpoint = endpoint);
        Ok(())
    }

    /// `Leave`. Docker calls it before it gives the interface back, and `DeleteEndpoint`
    /// after that.
    ///
    /// # Errors
    ///
    /// The interface is there, and can't be moved back.
    pub(crate) fn leave(&self, call: &Call) -> Result<Answer, Refusal> {
        let request: OfEndpoint = body::decode(&call.body)?;
        self.take_back(&request.endpoint_id)?;
        Ok(Answer::plain(NOTHING))
    }

    /// Moves the interface of an endpoint back into the endpoint's own namespace.
    fn take_back(&self, id: &str) -> Result<(), Refusal> {
        let Some(live) = self.endpoints.get(id) else {
            return Ok(());
        };
        let _call = lock(&live.calls);
        if self.endpoints.get(id).is_none_or(|it| it.file != live.file) {
            return Ok(());
        }
        let lock = EndpointLock::acquire(self.endpoint_files().folder(), &live.file)?;
        Namespace::of(id).move_back(&lock.execution(&self.plugins))
    }

    /// The endpoint of a call, which has been made.
    fn endpoint(&self, call: &Call) -> Result<LiveEndpoint, Refusal> {
        let request: OfEndpoint = body::decode(&call.body)?;
        self.network(&request.network_id)?;
        let id = request.endpoint_id;
        let live = self.endpoints.get(&id);
        let is_of_call = |it: &LiveEndpoint| {
            it.endpoint.network == request.network_id && it.endpoint.result.is_some()
        };
        live.filter(is_of_call).ok_or_else(|| {
            impossible(format!(
                "EndpointID: {id:?} is no endpoint that was created and not deleted"
            ))
        })
    }
}

fn of_network(network: &Network, why: &Refusal) -> Refusal {
    impossible(format!("network {}: {why}", network.conflist))
}

/// The answer to the call that makes an endpoint.
fn answer_of(interface: &Interface, result: &RawValue) -> Result<String, Refusal> {
    let offered = offered(interface, &CniResult::read(result)?);
    Ok(json!({"Interface": offered}).to_string())
}

/// The result of an endpoint's plugins.
fn result_of(endpoint: &Endpoint) -> Result<Box<RawValue>, Refusal> {
    let result = endpoint.result.clone().unwrap_or_default();
    RawValue::from_string(result).map_err(|error| impossible(error.to_string()))
}
