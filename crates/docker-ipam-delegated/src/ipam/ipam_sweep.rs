//! Abandons the addresses that Docker has lost.

use std::net::IpAddr;
use std::sync::Arc;

use crate::docker::engine::Engine;
use crate::ipam::held::Held;
use crate::ipam::ipam_driver::IpamDriver;

/// What Docker may have lost.
pub(crate) type Candidates = Vec<(Arc<Held>, IpAddr)>;

impl IpamDriver {
    /// Marks those of them for release that Docker's answer doesn't name.
    pub(crate) fn sweep(&self, candidates: &Candidates, docker: &Engine) {
        for (held, ip) in candidates {
            let subnet = held.pool.id.subnet;
            if docker.has_lost(held.purpose, subnet, *ip) && self.held.abandon(held) {
                let purpose = held.purpose;
                tracing::warn!(%ip, %subnet, ?purpose, "released: Docker doesn't have it");
            }
        }
    }
}
