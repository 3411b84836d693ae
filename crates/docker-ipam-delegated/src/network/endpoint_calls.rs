//! Docker's calls for endpoints. Each endpoint has a separate namespace, in which the network
//! configuration's plugins make the interface that Docker takes into the container.

use std::sync::Arc;

use cni::Object;
use serde_json::json;
use serde_json::value::RawValue;

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, impossible};
use crate::lock::lock;
use crate::network::cni_result::CniResult;
use crate::network::endpoint_answers::{joined, offered};
use crate::network::endpoint_record::LockedEndpoint;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::{CreateEndpoint, Interface, Join, OfEndpoint};
use crate::network::network_driver::NetworkDriver;
use crate::network::new_endpoint::new_endpoint;
use crate::network::plugin_list;
use crate::state::caller_line::CallerLine;
use crate::state::endpoint::Endpoint;
use crate::state::network::Network;

impl NetworkDriver {
    /// `CreateEndpoint`.
    ///
    /// # Errors
    ///
    /// It is there already; a plugin's, after all have been undone.
    pub(crate) fn create_endpoint(
        self: &Arc<Self>,
        request: CreateEndpoint,
    ) -> Result<Answer, Refusal> {
        let network = self.network(&request.of.network_id)?;
        self.collect();
        let id = request.of.endpoint_id;
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(impossible(format!("EndpointID: {id:?} is no ID")));
        }
        let list = self.list_of(&network)?;
        self.plugins
            .find_all(&list)
            .map_err(|why| of_network(&network, &why))?;
        let endpoint = new_endpoint(
            &network,
            serde_json::to_string(&list).expect("an object is JSON"),
            &id,
            &request.interface,
        );
        let live = LiveEndpoint::new(endpoint.clone());
        let calls = Arc::clone(&live.calls);
        let call_of_this = lock(&calls);
        if !self.endpoints.add(live.clone()) {
            return Err(impossible(format!("EndpointID: {id} is there already")));
        }
        lock(&self.taken).insert(endpoint.container_id());
        let locked = self.begin_record(&endpoint).inspect_err(|_| {
            // Nothing was made.
            self.endpoints.remove(&id);
        })?;
        let made = self.make(&locked, endpoint, &list, &request.interface);
        drop(locked);
        // A network that is deleted meanwhile takes the endpoints with it that it has.
        let made = made.and_then(|answer| self.network(&network.id).map(|_| answer));
        drop(call_of_this);
        let answer = made.map_err(|why| {
            let why = of_network(&network, &why);
            self.abandon(&id, &why.to_string());
            why
        })?;
        let driver = Arc::clone(self);
        Ok(answer.then(move |is_delivered| {
            if !is_delivered {
                driver.abandon(&id, "Docker has gone before it had this endpoint");
            }
        }))
    }

    /// Makes an endpoint, and returns the answer.
    fn make(
        &self,
        locked: &LockedEndpoint,
        mut endpoint: Endpoint,
        list: &Object,
        interface: &Interface,
    ) -> Result<Answer, Refusal> {
        let execution = locked.execution(self);
        let id = endpoint.plugged.id.clone();
        Namespace::of(&id).make(&execution)?;
        let results = plugin_list::add(&execution, list, &endpoint)?;
        let result = results.last().ok_or_else(|| impossible("no plugin"))?;
        endpoint.result = Some(result.get().to_owned());
        // For the undo, if the result can't be read or written.
        self.endpoints.change(&id, |live| live.endpoint = endpoint);
        let answer = answer_of(interface, result)?;
        locked.added(&results)?;
        Ok(answer)
    }

    /// `DeleteEndpoint`. An unknown endpoint has been deleted.
    ///
    /// # Errors
    ///
    /// Those of the plugins that fail.
    pub(crate) fn delete_endpoint(&self, request: &OfEndpoint) -> Result<Answer, Refusal> {
        self.end_endpoint(&request.endpoint_id)?;
        Ok(Answer::nothing())
    }

    /// `EndpointOperInfo`: the result of the plugins.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown.
    pub(crate) fn endpoint_info(&self, request: &OfEndpoint) -> Result<Answer, Refusal> {
        let endpoint = self.endpoint(request)?.endpoint;
        let value = json!({"namespace": endpoint.netns, "result": result_of(&endpoint)?});
        Ok(Answer::of(&json!({"Value": value})))
    }

    /// `Join`: moves the interface to where Docker takes it from.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown, or the interface can't be moved.
    pub(crate) fn join(self: &Arc<Self>, request: Join) -> Result<Answer, Refusal> {
        let LiveEndpoint { calls, .. } = self.endpoint(&request.of)?;
        let _call = lock(&calls);
        // Again: it may have ended meanwhile.
        let endpoint = self.endpoint(&request.of)?.endpoint;
        let id = endpoint.plugged.id.clone();
        let mut result = CniResult::read(&result_of(&endpoint)?)?;
        let is_internal = self.network(&endpoint.plugged.network)?.is_internal;
        let locked = self.lock_endpoint(&endpoint)?;
        let sandbox = request.sandbox_key;
        locked.append(&CallerLine::Sandbox(sandbox.clone()))?;
        self.endpoints
            .change(&id, |live| live.endpoint.sandbox = Some(sandbox));
        let namespace = Namespace::of(&id);
        namespace.move_out(&locked.execution(self))?;
        if is_internal {
            result.routes.retain(|route| route.to.prefix_len() > 0);
        }
        let joined = joined(&result, namespace.outside());
        let driver = Arc::clone(self);
        Ok(Answer::of(&joined).then(move |is_delivered| {
            if !is_delivered && let Err(error) = driver.take_back(&id) {
                tracing::warn!(%error, endpoint = id, "the interface can't be moved back");
            }
        }))
    }

    /// `Leave`. Docker calls it before it gives the interface back, and `DeleteEndpoint`
    /// after that.
    ///
    /// # Errors
    ///
    /// The interface is there, and can't be moved back.
    pub(crate) fn leave(&self, request: &OfEndpoint) -> Result<Answer, Refusal> {
        self.take_back(&request.endpoint_id)?;
        Ok(Answer::nothing())
    }

    /// Moves the interface of an endpoint back into the endpoint's own namespace.
    fn take_back(&self, id: &str) -> Result<(), Refusal> {
        let Some(live) = self.endpoints.get(id) else {
            return Ok(());
        };
        let _call = lock(&live.calls);
        if self.endpoints.same(&live).is_none() {
            return Ok(());
        }
        let locked = self.lock_endpoint(&live.endpoint)?;
        Namespace::of(id).move_back(&locked.execution(self))
    }

    /// The endpoint of a call, which has been made.
    fn endpoint(&self, request: &OfEndpoint) -> Result<LiveEndpoint, Refusal> {
        self.network(&request.network_id)?;
        let id = &request.endpoint_id;
        let live = self.endpoints.get(id);
        let is_of_call = |live: &LiveEndpoint| {
            let Endpoint {
                plugged, result, ..
            } = &live.endpoint;
            plugged.network == request.network_id && result.is_some()
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
fn answer_of(interface: &Interface, result: &RawValue) -> Result<Answer, Refusal> {
    let offered = offered(interface, &CniResult::read(result)?);
    Ok(Answer::of(&json!({"Interface": offered})))
}

/// The result of an endpoint's plugins.
fn result_of(endpoint: &Endpoint) -> Result<Box<RawValue>, Refusal> {
    let result = endpoint.raw_result();
    result.ok_or_else(|| impossible("the plugins' result is not known"))
}
