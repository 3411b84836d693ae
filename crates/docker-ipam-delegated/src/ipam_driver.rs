//! Docker's IPAM driver: its parts, and what it says of itself.

use std::io;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::json;

use crate::address_space::{GLOBAL, LOCAL};
use crate::answer::Answer;
use crate::chains::Chains;
use crate::memory::{Folder, Memory};
use crate::pool_choice::PoolChoice;
use crate::refusal::{Refusal, impossible};
use crate::state::{LivePool, State};
use crate::unanswered::UnansweredCalls;

/// The answer to a call that only takes something back.
pub(crate) const NOTHING: &str = "{}";

/// The driver.
pub(crate) struct IpamDriver {
    pub(crate) chains: Chains,
    pub(crate) memory: Arc<Memory>,
    pub(crate) choice: PoolChoice,
    pub(crate) state: State,
    pub(crate) unanswered: UnansweredCalls,
    /// Held while a pool is chosen or goes.
    pub(crate) pool_calls: Mutex<()>,
}

impl IpamDriver {
    /// `GetCapabilities`. With the MAC address, a call for an address that is repeated can
    /// be told from one for another container.
    pub(crate) fn capabilities() -> Answer {
        let body = json!({"RequiresMACAddress": true, "RequiresRequestReplay": false});
        Answer::plain(body.to_string())
    }

    /// `GetDefaultAddressSpaces`.
    pub(crate) fn default_address_spaces() -> Answer {
        let body = json!({"LocalDefaultAddressSpace": LOCAL, "GlobalDefaultAddressSpace": GLOBAL});
        Answer::plain(body.to_string())
    }

    /// The pool of this ID.
    ///
    /// # Errors
    ///
    /// Docker has no such pool.
    pub(crate) fn pool(&self, id: &str) -> Result<Arc<LivePool>, Refusal> {
        let pool = self.state.pool(id);
        pool.ok_or_else(|| {
            impossible(format!(
                "PoolID: {id:?} is no pool that was requested and not released"
            ))
        })
    }
}

/// An answer.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("an answer is JSON")
}

/// The refusal to do what could not be remembered.
pub(crate) fn cant_remember(error: &io::Error) -> Refusal {
    impossible(format!("the daemon's state can't be written: {error}"))
}

/// Removes the file of an object.
pub(crate) fn remove(folder: &Folder, name: &str) {
    if let Err(error) = folder.folder().remove(name) {
        tracing::warn!(%error, name, "can't be removed");
    }
}
