//! Answers to calls that Docker repeats, since an earlier daemon was killed before Docker
//! had the answer.

use std::sync::Arc;

use serde::Deserialize;

use crate::answer::{Answer, NOTHING};
use crate::ipam_driver::IpamDriver;
use crate::journal::{Call, Journal};
use crate::memory::Folder;
use crate::wire;

impl IpamDriver {
    /// The answer to a call that an earlier daemon has done, and Docker repeats.
    ///
    /// If Docker had the answer, and this is another call, it is the safe one: a release
    /// that is left out costs what the network's removal gives back.
    pub(crate) fn repeated(self: &Arc<Self>, call: &Call) -> Option<Answer> {
        let done = self.unanswered.take(call)?;
        tracing::info!(call.path, done.made, "answered once more");
        let Some(answer) = done.made else {
            if is_of_pool(call)
                && let Ok(request) = wire::decode::<wire::ReleasePool>(&call.body)
            {
                self.state.doubt(&request.pool_id);
            }
            let (driver, call) = (Arc::clone(self), call.clone());
            return Some(Answer::then(NOTHING, move |_| {
                driver.remove_ended(&call, &done.file);
            }));
        };
        // Docker's own release of it would have made this be forgotten.
        let journal = Journal::open(self.memory.addresses.folder(), &done.file).ok()?;
        let request: wire::RequestAddress = wire::decode(&call.body).ok()?;
        let pool = self.state.pool(&request.pool_id)?;
        let given: GivenAddress = serde_json::from_str(&answer).ok()?;
        let ip = ipam::parse_address(&given.address)?;
        Some(self.made_address(answer, journal, pool, ip))
    }

    /// Removes the files of calls that Docker doesn't repeat any more.
    pub(crate) fn forget_unanswered(&self) {
        for (call, ended) in self.unanswered.forget_all() {
            self.remove_ended(&call, &ended.file);
        }
    }

    /// Removes the file of what a call has ended, unless that goes on.
    fn remove_ended(&self, call: &Call, file: &str) {
        if !self.releases.has_file(file) {
            self.folder_of(call).remove(file);
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

/// The address in an answer to `RequestAddress`.
#[derive(Deserialize)]
struct GivenAddress {
    #[serde(rename = "Address")]
    address: String,
}
