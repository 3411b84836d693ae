//! Docker's IPAM driver: its parts and its capabilities.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::Notify;

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, impossible};
use crate::ipam::chains::Chains;
use crate::ipam::live_pools::{LivePool, LivePools};
use crate::ipam::pool_choice::PoolChoice;
use crate::ipam::waiting_releases::WaitingReleases;
use crate::state::address_space::{GLOBAL, LOCAL};
use crate::state::attachment_id::AddressIds;
use crate::state::files::Files;

/// The driver.
pub(crate) struct IpamDriver {
    pub(crate) chains: Chains,
    pub(crate) files: Arc<Files>,
    /// Container IDs for attachments.
    pub(crate) ids: AddressIds,
    pub(crate) choice: PoolChoice,
    pub(crate) pools: LivePools,
    pub(crate) releases: WaitingReleases,
    /// Held while a pool is compared with the others, and added to them. No chain runs
    /// meanwhile.
    pub(crate) adding: Mutex<()>,
    /// The records of addresses, and folders of them, that can't be read.
    pub(crate) unread_records: Mutex<BTreeSet<PathBuf>>,
    /// Notified when there may be what Docker doesn't have: Docker is to be asked.
    pub(crate) compare: Notify,
}

impl IpamDriver {
    /// `GetCapabilities`. The MAC address is a fact that chains choose by.
    pub(crate) fn capabilities() -> Answer {
        Answer::of(&json!({"RequiresMACAddress": true, "RequiresRequestReplay": false}))
    }

    /// `GetDefaultAddressSpaces`.
    pub(crate) fn default_address_spaces() -> Answer {
        Answer::of(&json!({"LocalDefaultAddressSpace": LOCAL, "GlobalDefaultAddressSpace": GLOBAL}))
    }

    /// The pool of this ID.
    ///
    /// # Errors
    ///
    /// Docker has no such pool.
    pub(crate) fn pool(&self, id: &str) -> Result<Arc<LivePool>, Refusal> {
        let pool = self.pools.pool(id);
        pool.ok_or_else(|| {
            impossible(format!(
                "PoolID: {id:?} is no pool that was requested and not released"
            ))
        })
    }
}
