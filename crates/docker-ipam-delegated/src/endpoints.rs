//! Docker's calls for endpoints: a namespace of its own, in which the network
//! configuration's plugins make the interface that Docker takes into the container.

use std::sync::Arc;

use cni::Object;
use serde_json::json;
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::endpoint_answers::{attached, joined, offered};
use crate::ipam_driver::{cant_remember, json};
use crate::journal::{Call, Journal};
use crate::namespaces::Namespace;
use crate::network_driver::{Endpoint, NOTHING, NetworkDriver, Remembered};
use crate::network_wire::{CreateEndpoint, Join, OfEndpoint};
use crate::plumbed::Plumbed;
use crate::refusal::{Refusal, impossible};
use crate::state::lock;
use crate::wire;

impl NetworkDriver {
    /// `CreateEndpoint`.
    ///
    /// # Errors
    ///
    /// A plugin's, after all have been undone.
    pub(crate) fn create_endpoint(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: CreateEndpoint = wire::decode(&call.body)?;
        let network = self.network(&request.network_id)?;
        self.collect();
        let id = request.endpoint_id;
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(impossible(format!("EndpointID: {id:?} is no ID")));
        }
        if lock(&self.endpoints).contains_key(&id) {
            return Err(impossible(format!("EndpointID: {id} is there already")));
        }
        let list = self.list_of(&network)?;
        let of_network = |why: Refusal| impossible(format!("network {}: {why}", network.conflist));
        self.plugins.find_all(&list).map_err(of_network)?;
        let mut endpoint = Endpoint {
            attached: attached(&network, &id, &request.interface),
            id: id.clone(),
            network: network.id.clone(),
            list: json(&list),
            result: None,
            sandbox: None,
        };
        let name = self.endpoint_files().new_name();
        let mut journal = Journal::begin(
            self.endpoint_files().folder(),
            &name,
            call,
            endpoint.clone(),
        )
        .map_err(|error| cant_remember(&error))?;
        let made = Namespace::of(&id)
            .make()
            .and_then(|()| self.plugins.add(&list, &endpoint.attached));
        let undo = |endpoint: &Endpoint, journal: &Journal<Endpoint>, why: Refusal| {
            match self.undo(endpoint) {
                Ok(()) => journal.remove(),
                Err(error) => tracing::warn!(%error, "undone at the next start"),
            }
            why
        };
        let result = made.map_err(|why| undo(&endpoint, &journal, of_network(why)))?;
        let answer = json!({"Interface": offered(&request.interface, &Plumbed::read(&result))});
        let answer = answer.to_string();
        endpoint.result = Some(result.get().to_owned());
        journal
            .made(endpoint.clone(), &answer)
            .map_err(|error| undo(&endpoint, &journal, cant_remember(&error)))?;
        let it = endpoint;
        lock(&self.endpoints).insert(id.clone(), Remembered { name, it });
        Ok(self.made_endpoint(answer, journal, id))
    }

    fn made_endpoint(
        self: &Arc<Self>,
        answer: String,
        mut journal: Journal<Endpoint>,
        id: String,
    ) -> Answer {
        let driver = Arc::clone(self);
        Answer::then(answer, move |is_delivered| {
            if is_delivered {
                journal.answered();
                return;
            }
            tracing::warn!(endpoint = id, "Docker has gone before it had this endpoint");
            let Some(endpoint) = lock(&driver.endpoints).remove(&id) else {
                return;
            };
            driver.unanswered.forget(&endpoint.name);
            match driver.undo(&endpoint.it) {
                Ok(()) => journal.remove(),
                Err(error) => {
                    tracing::warn!(%error, endpoint = id, "can't be undone");
                    lock(&driver.endpoints).insert(id, endpoint);
                }
            }
        })
    }

    /// The answer to a call for an endpoint that an earlier daemon has made.
    pub(crate) fn repeated_endpoint(
        self: &Arc<Self>,
        call: &Call,
        answer: String,
        journal: Journal<Endpoint>,
    ) -> Option<Answer> {
        let request: OfEndpoint = wire::decode(&call.body).ok()?;
        Some(self.made_endpoint(answer, journal, request.endpoint_id))
    }

    /// `DeleteEndpoint`. An unknown endpoint has been deleted.
    ///
    /// # Errors
    ///
    /// Those of the plugins that fail.
    pub(crate) fn delete_endpoint(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: OfEndpoint = wire::decode(&call.body)?;
        Ok(match self.end_endpoint(&request.endpoint_id, call)? {
            Some(journal) => Answer::then(NOTHING, move |_| journal.remove()),
            None => Answer::plain(NOTHING),
        })
    }

    /// Undoes an endpoint; its file stays until Docker has the answer.
    pub(crate) fn end_endpoint(
        &self,
        id: &str,
        call: &Call,
    ) -> Result<Option<Journal<Endpoint>>, Refusal> {
        let Some(endpoint) = lock(&self.endpoints).remove(id) else {
            return Ok(None);
        };
        let ended = Journal::open(self.endpoint_files().folder(), &endpoint.name)
            .and_then(|mut journal: Journal<Endpoint>| journal.ending(call).map(|()| journal))
            .map_err(|error| cant_remember(&error))
            .and_then(|journal| self.undo(&endpoint.it).map(|()| journal));
        match ended {
            Ok(mut journal) => {
                self.unanswered.forget(&endpoint.name);
                journal.ended();
                Ok(Some(journal))
            }
            Err(why) => {
                lock(&self.endpoints).insert(id.to_owned(), endpoint);
                Err(why)
            }
        }
    }

    /// Undoes what `CreateEndpoint` and `Join` have done, as far as they came.
    pub(crate) fn undo(&self, endpoint: &Endpoint) -> Result<(), Refusal> {
        let namespace = Namespace::of(&endpoint.id);
        namespace.move_back()?;
        let list: Object =
            serde_json::from_str(&endpoint.list).map_err(|error| impossible(error.to_string()))?;
        let result = endpoint.result.clone().map(RawValue::from_string);
        let result = result.and_then(Result::ok);
        self.plugins
            .del(&list, &endpoint.attached, result.as_deref())?;
        namespace.remove()
    }

    /// `EndpointOperInfo`: the result of the plugins.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown.
    pub(crate) fn endpoint_info(&self, call: &Call) -> Result<Answer, Refusal> {
        let (endpoint, result) = self.endpoint(call)?;
        let value = json!({"namespace": endpoint.attached.netns, "result": result});
        Ok(Answer::plain(json!({"Value": value}).to_string()))
    }

    /// `Join`: moves the interface to where Docker takes it from.
    ///
    /// # Errors
    ///
    /// The endpoint is unknown, or the interface can't be moved.
    pub(crate) fn join(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let (endpoint, result) = self.endpoint(call)?;
        let request: Join = wire::decode(&call.body)?;
        self.remember_sandbox(endpoint.clone(), request.sandbox_key)?;
        let namespace = Namespace::of(&endpoint.id);
        namespace.move_out()?;
        let mut plumbed = Plumbed::read(&result);
        if self.network(&endpoint.network)?.is_internal {
            plumbed.routes.retain(|(to, _)| to.prefix_len() > 0);
        }
        let joined = joined(&plumbed, namespace.outside());
        Ok(Answer::then(json(&joined), move |is_delivered| {
            if !is_delivered && let Err(error) = namespace.move_back() {
                tracing::warn!(%error, "the interface can't be moved back");
            }
        }))
    }

    fn remember_sandbox(&self, mut endpoint: Endpoint, sandbox: String) -> Result<(), Refusal> {
        endpoint.sandbox = Some(sandbox);
        let mut endpoints = lock(&self.endpoints);
        let Some(known) = endpoints.get_mut(&endpoint.id) else {
            return Ok(());
        };
        // Docker has the answer to the call that made it: it wouldn't join otherwise.
        self.unanswered.forget(&known.name);
        Journal::open(self.endpoint_files().folder(), &known.name)
            .and_then(|mut journal| {
                journal.made(endpoint.clone(), NOTHING)?;
                journal.answered();
                Ok(())
            })
            .map_err(|error| cant_remember(&error))?;
        known.it = endpoint;
        Ok(())
    }

    /// `Leave`. Docker calls it before it gives the interface back, and `DeleteEndpoint`
    /// after that.
    ///
    /// # Errors
    ///
    /// The interface is there, and can't be moved back.
    pub(crate) fn leave(&self, call: &Call) -> Result<Answer, Refusal> {
        let request: OfEndpoint = wire::decode(&call.body)?;
        if lock(&self.endpoints).contains_key(&request.endpoint_id) {
            Namespace::of(&request.endpoint_id).move_back()?;
        }
        Ok(Answer::plain(NOTHING))
    }

    /// The endpoint of a call, and the result of its plugins.
    fn endpoint(&self, call: &Call) -> Result<(Endpoint, Box<RawValue>), Refusal> {
        let request: OfEndpoint = wire::decode(&call.body)?;
        self.network(&request.network_id)?;
        let id = request.endpoint_id;
        let endpoint = lock(&self.endpoints).get(&id).map(|it| it.it.clone());
        let endpoint = endpoint.filter(|it| it.network == request.network_id);
        let endpoint = endpoint.ok_or_else(|| {
            impossible(format!(
                "EndpointID: {id:?} is no endpoint that was created and not deleted"
            ))
        })?;
        let result = endpoint.result.clone().unwrap_or_default();
        let result =
            RawValue::from_string(result).map_err(|error| impossible(error.to_string()))?;
        Ok((endpoint, result))
    }
}
