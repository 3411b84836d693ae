//! Settles addresses and pools by Docker's answer: what Docker doesn't have is released.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use cni::ContainerId;

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held as Asked, Verdict, judge};
use crate::ipam::held::{Held, Holder};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pool::LivePool;
use crate::state::record::RecordedAddress;

/// An attachment that only a record remembers: the file of its pool is lost, so no call of
/// Docker's can release it.
///
/// Neither files nor records are synced to the disk at each write: after a power cut, the
/// record may be there, and the file of the pool not.
pub(crate) struct Forgotten {
    pub(crate) container_id: ContainerId,
    pub(crate) recorded: RecordedAddress,
}

impl IpamDriver {
    /// Settles everything that existed at this time, but the addresses that Docker doesn't list
    /// yet (`new`), and these forgotten attachments.
    pub(crate) fn settle(
        &self,
        before: Instant,
        forgotten: &[Forgotten],
        new: &BTreeSet<IpAddr>,
        docker: &Engine,
    ) {
        for pool in self.pools.all() {
            let mut given = pool.given(before);
            given.retain(|held| held.ip.is_none_or(|ip| !new.contains(&ip)));
            for held in given {
                settle_address(&held, docker);
            }
        }
        for forgotten in forgotten {
            self.settle_forgotten(forgotten, docker);
        }
        for pool in self.pools.all() {
            for file in pool.references(before) {
                self.settle_pool(&pool, &file, docker);
            }
        }
        self.remove_ended_pools();
    }

    fn settle_pool(&self, pool: &Arc<LivePool>, file: &str, docker: &Engine) {
        if judge(Asked::Pool(pool.pool.subnet), docker) != Verdict::Lost {
            return;
        }
        if let Some(releases) = self.drop_reference(pool, Some(file)) {
            tracing::warn!(pool = pool.id, "released: Docker doesn't have it");
            for held in releases {
                held.end_release(false);
            }
        }
    }

    fn settle_forgotten(&self, forgotten: &Forgotten, docker: &Engine) {
        let Forgotten {
            container_id,
            recorded: RecordedAddress { ips, config, .. },
        } = forgotten;
        match judge(Asked::Attachment(ips), docker) {
            Verdict::InUse(user) => tracing::warn!(
                %container_id, ?ips, user.network, user.container,
                "its pool is not known; kept, since Docker has its address"
            ),
            Verdict::Unknown(why) => tracing::warn!(
                %container_id, why, "its pool is not known; kept, see ipamctl gc --docker"
            ),
            Verdict::Lost => {
                let Some(config) = config else {
                    tracing::warn!(%container_id, ?ips, "its record has no configuration; kept");
                    return;
                };
                match self.chains.release(config, container_id) {
                    Ok(()) => tracing::warn!(
                        %container_id, ?ips,
                        "its pool is not known; released, since Docker doesn't have its address"
                    ),
                    Err(error) => {
                        tracing::warn!(%error, %container_id, ?ips, "can't be released now");
                    }
                }
            }
        }
    }
}

fn settle_address(held: &Held, docker: &Engine) {
    let Held { pool, ip, holder } = held;
    let (id, subnet) = (&pool.id, pool.pool.subnet);
    let asked = match (holder, *ip) {
        (_, None) => return,
        (Holder::Attachment(_), Some(ip)) => Asked::Address(subnet, ip),
        (Holder::Gateway(_), Some(ip)) => Asked::Gateway(subnet, ip),
    };
    match judge(asked, docker) {
        Verdict::InUse(_) => {}
        Verdict::Unknown(why) => tracing::debug!(pool = id, ?ip, why, "kept"),
        Verdict::Lost => {
            if held.begin_release() {
                tracing::warn!(pool = id, ?ip, "released: Docker doesn't have it");
                // From here on, it is one of the releases that wait (`daemon::upkeep`).
                held.end_release(false);
            }
        }
    }
}
