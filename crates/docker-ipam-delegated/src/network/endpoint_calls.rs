//! Docker's calls for endpoints. Each endpoint has a separate namespace, in which the network
//! configuration's plugins make the interface that Docker takes into the container.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use chain::OwnRecord;
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::conflists;
use crate::network::cni_result::CniResult;
use crate::network::endpoint_answers::{joined, offered};
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::Namespace;
use crate::network::network_bodies::{CreateEndpoint, Interface, Join, OfEndpoint};
use crate::network::network_driver::NetworkDriver;
use crate::network::new_endpoint::new_endpoint;
use crate::network::plugin_list;
use crate::state::endpoint::Endpoint;
use crate::state::files::UNWRITTEN;
use crate::state::pool::network_config;
use crate::state::record::CallerLine;
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
    pub(crate) fn join(self: &Arc<Self>, request: Join) -> Result<Answer> {
        let LiveEndpoint { calls, .. } = self.endpoint(&request.of)?;
        let _call = lock(&calls);
        // Looked up again: the endpoint may have ended during the wait for the lock.
        let endpoint = self.endpoint(&request.of)?.endpoint;
        let id = endpoint.plugged.id.clone();
        let mut result = read_result(&endpoint)?;
        let is_internal = self.network(&endpoint.plugged.network)?.is_internal;
        let record = self.lock_endpoint(&endpoint)?;
        let record = record.context("the endpoint has no record")?;
        let sandbox = request.sandbox_key;
        let line = CallerLine::Sandbox(sandbox.clone()).to_raw();
        record.append_caller_line(line).context(UNWRITTEN)?;
        self.endpoints
            .change(&id, |live| live.endpoint.sandbox = Some(sandbox));
        let namespace = Namespace::of(&id);
        namespace.move_out(&self.execution(Some(&record)))?;
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
