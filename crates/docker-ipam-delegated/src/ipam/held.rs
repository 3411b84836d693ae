//! A held address of a pool, and its holder.

use std::net::IpAddr;
use std::sync::Arc;

use cni::ContainerId;

use crate::ipam::live_pool::LivePool;

/// An address that is held.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) pool: Arc<LivePool>,
    /// The address; `None` if it is unknown which one the attachment got.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) holder: Holder,
}

/// The holder of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The attachment of this container ID.
    Attachment(ContainerId),
    /// The pool itself: the address is its gateway. The value is the name of the gateway's file.
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
    /// A thread is releasing it.
    Releasing,
    /// Its release has failed, or was left by an earlier daemon. It is tried again.
    Waiting,
}
