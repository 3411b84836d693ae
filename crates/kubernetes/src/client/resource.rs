//! The resources of the API group: their kinds, and their paths.

/// The API group.
pub const GROUP: &str = "ipam-delegated.io";

/// The version of the API group.
pub const VERSION: &str = "v1";

/// A resource of the API group. All are cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Definitions of pools.
    Pool,
    /// Addresses and their holders.
    Address,
    /// Blocks and their nodes.
    Block,
    /// Registrations of nodes.
    IpamNode,
    /// The address that a sticky key was given last.
    StickyKey,
    /// The sticky key that was given an address last.
    StickyAddress,
    /// Marks of a restore or an import.
    Restore,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pool,
        Self::Address,
        Self::Block,
        Self::IpamNode,
        Self::StickyKey,
        Self::StickyAddress,
        Self::Restore,
    ];

    /// `kind` of an object.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pool => "Pool",
            Self::Address => "Address",
            Self::Block => "Block",
            Self::IpamNode => "IPAMNode",
            Self::StickyKey => "StickyKey",
            Self::StickyAddress => "StickyAddress",
            Self::Restore => "Restore",
        }
    }

    /// Name in a path, and in rights.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pool => "pools",
            Self::Address => "addresses",
            Self::Block => "blocks",
            Self::IpamNode => "ipamnodes",
            Self::StickyKey => "stickykeys",
            Self::StickyAddress => "stickyaddresses",
            Self::Restore => "restores",
        }
    }

    /// Path of the resource on the API server.
    pub fn path(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/{}", self.plural())
    }

    /// `apiVersion` of an object.
    pub fn api_version() -> String {
        format!("{GROUP}/{VERSION}")
    }
}
