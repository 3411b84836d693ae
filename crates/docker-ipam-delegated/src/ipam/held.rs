//! A pool that this process serves, and what is held of it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cni::{ContainerId, Error, NetworkName};

use crate::state::pool::{Pool, PoolChain};
use crate::turns::Turns;

/// Chains that run for one pool at once. More of them would wait for the same locks, and a
/// pool whose delegates hang keeps no other pool waiting.
const CHAINS_AT_ONCE: usize = 4;

/// A pool.
pub(crate) struct LivePool {
    /// Its ID.
    pub(crate) id: String,
    /// The pool.
    pub(crate) pool: Pool,
    /// Its chain.
    pub(crate) chain: PoolChain,
    /// Turns of the chain's runs.
    pub(crate) turns: Turns,
}

impl LivePool {
    /// A pool of which nothing is held.
    ///
    /// # Errors
    ///
    /// The pool's configuration is wrong.
    pub(crate) fn new(pool: Pool) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            id: pool.id(),
            chain: pool.chain()?,
            pool,
            turns: Turns::new(CHAINS_AT_ONCE),
        }))
    }

    /// The folder of its chain's records, and the name of the network in it.
    pub(crate) fn records(&self) -> (PathBuf, NetworkName) {
        let PoolChain { config, records } = &self.chain;
        (records.clone(), config.name().clone())
    }
}

/// An address that is held.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) pool: Arc<LivePool>,
    /// The address; `None` if it is not known which one the attachment got.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) holder: Holder,
}

/// The holder of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The attachment of this container ID.
    Attachment(ContainerId),
    /// The pool itself: the address is its gateway. This is the name of its file.
    Gateway(String),
}

impl Holder {
    /// The container ID of an attachment.
    pub(crate) fn container_id(&self) -> Option<&ContainerId> {
        match self {
            Self::Attachment(container_id) => Some(container_id),
            Self::Gateway(_) => None,
        }
    }
}

/// Standing of a held address in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Docker has it, as far as is known.
    Given,
    /// A thread releases it.
    Releasing,
    /// Its release has failed, or has not begun in this process. It is tried again.
    Waiting,
}
