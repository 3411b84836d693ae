//! Values of an address or a pool that Docker was given.

use std::net::IpAddr;

use cni::ContainerId;
use ipam::IpNet;

/// What Docker has an address for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) holder: Holder,
    /// False if Docker may not have had the answer, since an earlier daemon was killed.
    pub(crate) is_sure: bool,
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

/// An address, or a gateway, that Docker may have.
pub(crate) struct GivenAddress {
    /// The ID of its pool: a pool that has ended must not be held.
    pub(crate) pool: String,
    pub(crate) subnet: IpNet,
    pub(crate) ip: IpAddr,
    pub(crate) used: Use,
}

/// A reference to a pool that Docker may have.
pub(crate) struct GivenReference {
    /// The ID of the pool.
    pub(crate) pool: String,
    pub(crate) subnet: IpNet,
    /// The name of its file.
    pub(crate) file: String,
}
