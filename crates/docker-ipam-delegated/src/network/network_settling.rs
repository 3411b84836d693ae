//! Settles endpoints and networks by Docker's answer: what Docker doesn't have is undone.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipam::IpNet;

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held, Verdict, judge};
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::NetworkDriver;
use crate::threads::lock;

impl NetworkDriver {
    /// The addresses of endpoints that are being made, or were made after this time. Docker lists
    /// an endpoint and its address only after the answer to `CreateEndpoint`.
    pub(crate) fn addresses_made_after(&self, time: Instant) -> BTreeSet<IpAddr> {
        let mut endpoints = self.endpoints.all();
        endpoints.retain(|live| !live.was_made_by(time));
        let plugged = endpoints.iter().map(|live| &live.endpoint.plugged);
        let addresses = plugged.flat_map(|plugged| &plugged.addresses);
        addresses
            .filter_map(|(text, _)| Some(text.parse::<IpNet>().ok()?.addr()))
            .collect()
    }

    /// Settles the endpoints that were made by this time; false if one can't be settled now, since
    /// a call works on it.
    pub(crate) fn settle_endpoints(self: &Arc<Self>, before: Instant, docker: &Engine) -> bool {
        let mut endpoints = self.endpoints.all();
        endpoints.retain(|live| live.was_made_by(before));
        let settled = endpoints.iter().map(|live| self.settle(live, docker));
        let are_settled = settled.fold(true, |all, one| all & one);
        self.collect();
        are_settled
    }

    fn settle(&self, live: &LiveEndpoint, docker: &Engine) -> bool {
        let id = live.id();
        let verdict = judge(Held::Endpoint(id), docker);
        let Ok(_call) = live.calls.try_lock() else {
            return verdict != Verdict::Lost;
        };
        if verdict == Verdict::Lost && self.endpoints.same(live).is_some() {
            tracing::warn!(endpoint = id, "undone: Docker doesn't have it");
            self.endpoints.change(id, |live| live.is_abandoned = true);
        }
        true
    }

    /// Forgets the networks that existed at this time and that Docker doesn't have. They hold
    /// nothing themselves.
    pub(crate) fn settle_networks(&self, before: Instant, docker: &Engine) {
        lock(&self.networks).retain(|id, live| {
            let is_lost = live.since <= before && judge(Held::Network(id), docker) == Verdict::Lost;
            if is_lost {
                tracing::warn!(network = id, "forgotten: Docker doesn't have it");
                self.files.networks.remove(&live.file);
            }
            !is_lost
        });
    }
}
