//! Calls that Docker repeats, since an earlier daemon was killed before Docker had the
//! answer.

use std::sync::Arc;

use serde::Deserialize;

use crate::answer::Answer;
use crate::ipam_driver::{IpamDriver, remove};
use crate::journal::{Call, Journal};
use crate::memory::Folder;
use crate::unanswered::Unanswered;
use crate::wire;

impl IpamDriver {
    /// The answer to a call that an earlier daemon has done, and Docker repeats.
    pub(crate) fn repeated(self: &Arc<Self>, call: &Call) -> Option<Answer> {
        let Unanswered {
            name,
            answer,
            is_end,
        } = self.unanswered.take(call)?;
        tracing::info!(call.path, answer, "given once more");
        if is_end {
            let (driver, call) = (Arc::clone(self), call.clone());
            return Some(Answer::then(answer, move |_| {
                remove(driver.folder_of(&call), &name);
            }));
        }
        // Docker's own end of it would have made this be forgotten.
        if is_of_pool(call) {
            let journal = Journal::open(self.memory.pools.folder(), &name).ok()?;
            let pool: PoolId = serde_json::from_str(&answer).ok()?;
            return Some(self.made_pool(answer, journal, pool.id));
        }
        let journal = Journal::open(self.memory.addresses.folder(), &name).ok()?;
        let request: wire::RequestAddress = wire::decode(&call.body).ok()?;
        let pool = self.state.pool(&request.pool_id)?;
        let given: GivenAddress = serde_json::from_str(&answer).ok()?;
        let ip = ipam::parse_address(&given.address)?;
        Some(self.made_address(answer, journal, pool, ip))
    }

    /// Removes the files of calls that Docker doesn't repeat any more.
    pub(crate) fn forget_unanswered(&self) {
        for (call, name) in self.unanswered.forget_all() {
            remove(self.folder_of(&call), &name);
        }
    }

    /// The folder of the objects that a call is about.
    fn folder_of(&self, call: &Call) -> &Folder {
        if is_of_pool(call) {
            &self.memory.pools
        } else {
            &self.memory.addresses
        }
    }
}

fn is_of_pool(call: &Call) -> bool {
    call.path.ends_with("Pool")
}

/// The ID in an answer to `RequestPool`.
#[derive(Deserialize)]
struct PoolId {
    #[serde(rename = "PoolID")]
    id: String,
}

/// The address in an answer to `RequestAddress`.
#[derive(Deserialize)]
struct GivenAddress {
    #[serde(rename = "Address")]
    address: String,
}
