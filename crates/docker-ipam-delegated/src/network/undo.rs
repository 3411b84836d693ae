//! Undoes endpoints: the effects of `CreateEndpoint` and `Join`, whatever part of them there is. An
//! endpoint that can't be undone now is kept in `unfinished`, and the daemon tries it again every few
//! seconds.

use std::time::Duration;

use anyhow::{Context, Result};
use chain::OwnRecord;
use chain::record::{RecordState, attachments, networks, record_of, records};
use cni::{Attachment, NetworkName};
use docker_records::records::DOCKER_PREFIX;

use crate::docker::whole_answer::WholeAnswer;
use crate::http::refusal::message;
use crate::network::cni_result::CniResult;
use crate::network::endpoint::{Endpoint, attachment};
use crate::network::namespaces::Namespace;
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::threads::lock;

impl NetworkDriver {
    /// Undoes the endpoint of this ID, if it exists, after the call that works on it.
    ///
    /// # Errors
    ///
    /// Those of the failed plugins; a call works on it still. The undo is repeated.
    pub(crate) fn end_endpoint(&self, network: &NetworkName, id: &str) -> Result<()> {
        let undone = self.undo(network, id);
        let key = (network.clone(), id.to_owned());
        // Docker only logs that it has failed, and forgets the endpoint.
        if undone.is_ok() {
            lock(&self.unfinished).remove(&key);
        } else {
            lock(&self.unfinished).insert(key);
        }
        undone
    }

    fn undo(&self, network: &NetworkName, id: &str) -> Result<()> {
        let attachment = attachment(id)?;
        let Some(record) = OwnRecord::open(&self.records, network, &attachment)? else {
            return Ok(());
        };
        if let Some(listed) = record_of(&self.records, network, &attachment)? {
            let endpoint = Endpoint::of(listed)?;
            record.note_deleting();
            let execution = self.execution(Some(&record));
            let namespace = Namespace::of(id);
            let result = endpoint.result.as_deref().map(CniResult::read);
            let addresses = result.transpose()?.unwrap_or_default().addresses_inside();
            namespace.move_back(&execution, &addresses)?;
            plugin_list::del(&execution, &endpoint)?;
            namespace.remove(&execution)?;
        }
        // An empty record: a daemon was killed before anything was made.
        record.remove();
        Ok(())
    }

    /// Undoes an endpoint that Docker will never have. If that fails, it is logged, and tried
    /// again later.
    pub(crate) fn abandon(&self, network: &NetworkName, id: &str, why: &str) {
        tracing::warn!(endpoint = id, why, "is undone");
        if let Err(error) = self.end_endpoint(network, id) {
            tracing::warn!(error = %message(&error), endpoint = id, "can't be undone now");
        }
    }

    /// Finds the endpoints that an earlier daemon was making or undoing.
    pub(crate) fn read_unfinished(&self) {
        for network in networks(&self.records).unwrap_or_default() {
            let listed = attachments(&self.records, &network).unwrap_or_default();
            let records = records(&self.records, &network).unwrap_or_default();
            let is_made = |attachment: &Attachment| {
                let at = records.binary_search_by_key(&attachment, |record| &record.attachment);
                let content = at.map(|at| records[at].usable());
                // One that can't be read is kept.
                content.is_ok_and(|content| content.is_none_or(|of| of.state == RecordState::Added))
            };
            for attachment in listed.iter().filter(|attachment| !is_made(attachment)) {
                if let Some(id) = attachment.container_id.as_str().strip_prefix(DOCKER_PREFIX) {
                    lock(&self.unfinished).insert((network.clone(), id.to_owned()));
                }
            }
        }
    }

    /// The endpoints whose ADD began at least this long ago.
    pub(crate) fn endpoints_of_age(&self, age: Duration) -> Vec<Endpoint> {
        let mut endpoints = self.endpoints().unwrap_or_else(|error| {
            tracing::warn!("records of endpoints can't be read: {error:#}");
            Vec::new()
        });
        let is_old = |endpoint: &Endpoint| endpoint.added.elapsed().is_ok_and(|since| since >= age);
        endpoints.retain(is_old);
        endpoints
    }

    /// The endpoints whose records can be read.
    ///
    /// # Errors
    ///
    /// An I/O error of the folder of records.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let mut endpoints = Vec::new();
        let folder = |network: &str| self.records.join(network).display().to_string();
        for network in networks(&self.records).with_context(|| folder(""))? {
            let listed = records(&self.records, &network);
            let listed = listed.with_context(|| folder(network.as_str()))?;
            endpoints.extend(
                listed
                    .into_iter()
                    .filter_map(|record| Endpoint::of(record).ok()),
            );
        }
        Ok(endpoints)
    }

    /// Marks those of these endpoints for their undo that Docker's answer doesn't name.
    pub(crate) fn sweep_endpoints(&self, mut endpoints: Vec<Endpoint>, docker: &WholeAnswer) {
        endpoints.retain(|endpoint| docker.has_lost_endpoint(&endpoint.line.id));
        for endpoint in &endpoints {
            tracing::warn!(endpoint.line.id, "is undone: Docker doesn't have it");
        }
        self.undo_later(&endpoints);
    }

    /// Puts endpoints into the list of those that are to be undone.
    pub(crate) fn undo_later(&self, endpoints: &[Endpoint]) {
        let key = |endpoint: &Endpoint| (endpoint.config.name().clone(), endpoint.line.id.clone());
        lock(&self.unfinished).extend(endpoints.iter().map(key));
    }
}
