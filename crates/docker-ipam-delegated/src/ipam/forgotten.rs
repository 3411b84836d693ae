//! Attachments that only a record remembers: the file of their pool is lost.
//!
//! Neither files nor records are synced to the disk at each write: after a power cut, the
//! record may be there, and the file of the pool not.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use chain::record as records;
use cni::{ContainerId, NetworkConfig};

use crate::docker::engine::Engine;
use crate::docker::judgement::{Held, Verdict, judge};
use crate::ipam::ipam_driver::IpamDriver;
use crate::state::address_record;

/// An attachment that no call of Docker's can release.
pub(crate) struct Forgotten {
    container_id: ContainerId,
    /// Its addresses, as far as they are known.
    ips: Vec<IpAddr>,
    /// The configuration of its chain.
    config: Option<NetworkConfig>,
}

impl IpamDriver {
    /// The forgotten attachments in the folder of the daemon's own records. Networks of network
    /// configurations have their records in folders that others use, too.
    pub(crate) fn forgotten(&self, records: &Path) -> Vec<Forgotten> {
        self.try_forgotten(records).unwrap_or_else(|error| {
            tracing::warn!(%error, records = %records.display(), "can't be read: all is kept");
            Vec::new()
        })
    }

    fn try_forgotten(&self, folder: &Path) -> io::Result<Vec<Forgotten>> {
        let known = self.known();
        let mut all = Vec::new();
        for network in records::networks(folder)? {
            for record in address_record::read_all(folder, &network)? {
                let container_id = record.container_id;
                if self.knows(&known, &container_id) {
                    continue;
                }
                match record.content {
                    Ok(Some(content)) => all.push(Forgotten {
                        container_id,
                        ips: content.ips,
                        config: content.config,
                    }),
                    // Its pool is not known either: it is kept.
                    Ok(None) => {}
                    Err(reason) => tracing::warn!(
                        reason, %container_id, %network, "its record can't be read: it is kept"
                    ),
                }
            }
        }
        Ok(all)
    }

    /// Releases a forgotten attachment if Docker doesn't have its address.
    pub(crate) fn settle_forgotten(&self, forgotten: &Forgotten, docker: &Engine) {
        let Forgotten {
            container_id,
            ips,
            config,
        } = forgotten;
        match judge(Held::Attachment(ips), docker) {
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
