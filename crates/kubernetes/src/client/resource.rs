//! The resources that the client uses: their kinds and paths.

use percent_encoding::utf8_percent_encode;

use super::request::UNRESERVED;

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
    /// The last address of each sticky key.
    StickyKey,
    /// The last sticky key of each address.
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

    /// Plural name, as paths and RBAC rules have it.
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

/// A resource of another API group. It is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherResource {
    /// Nodes of the cluster.
    Node,
    /// Pods.
    Pod,
    /// Networks of Multus.
    NetworkAttachmentDefinition,
    /// Allocations of whereabouts, by range.
    IpPool,
    /// Addresses of whereabouts, one by one.
    OverlappingReservation,
}

impl OtherResource {
    /// The resource in one namespace.
    pub fn in_namespace(self, namespace: &str) -> Target {
        Target::InNamespace(self, namespace.to_owned())
    }

    /// `kind` of an object.
    fn kind(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::NetworkAttachmentDefinition => "NetworkAttachmentDefinition",
            Self::IpPool => "IPPool",
            Self::OverlappingReservation => "OverlappingRangeIPReservation",
        }
    }

    /// The API group, its version, and the name in a path.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Node => ("", "v1", "nodes"),
            Self::Pod => ("", "v1", "pods"),
            Self::NetworkAttachmentDefinition => {
                ("k8s.cni.cncf.io", "v1", "network-attachment-definitions")
            }
            Self::IpPool => ("whereabouts.cni.cncf.io", "v1alpha1", "ippools"),
            Self::OverlappingReservation => (
                "whereabouts.cni.cncf.io",
                "v1alpha1",
                "overlappingrangeipreservations",
            ),
        }
    }
}

/// Objects of a request: those of a resource, or those of a resource in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Objects of our API group.
    Own(Resource),
    /// Objects of another API group.
    Other(OtherResource),
    /// Objects of another API group in this namespace.
    InNamespace(OtherResource, String),
}

impl Target {
    /// Path on the API server.
    pub fn path(&self) -> String {
        let (group, version, plural) = self.names();
        let group = match group {
            "" => "api".to_owned(),
            group => format!("apis/{group}"),
        };
        let namespace = match self {
            Self::InNamespace(_, name) => {
                format!("/namespaces/{}", utf8_percent_encode(name, UNRESERVED))
            }
            _ => String::new(),
        };
        format!("/{group}/{version}{namespace}/{plural}")
    }

    /// The name in messages, such as `addresses.ipam-delegated.io`.
    pub(super) fn full_name(&self) -> String {
        match self.names() {
            ("", _, plural) => plural.to_owned(),
            (group, _, plural) => format!("{plural}.{group}"),
        }
    }

    /// The API group; empty for the core group.
    pub(super) fn group(&self) -> &'static str {
        self.names().0
    }

    /// `kind` of an object.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Own(resource) => resource.kind(),
            Self::Other(resource) | Self::InNamespace(resource, _) => resource.kind(),
        }
    }

    fn names(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Own(resource) => (GROUP, VERSION, resource.plural()),
            Self::Other(resource) | Self::InNamespace(resource, _) => resource.names(),
        }
    }
}

impl From<Resource> for Target {
    fn from(resource: Resource) -> Self {
        Self::Own(resource)
    }
}

impl From<OtherResource> for Target {
    fn from(resource: OtherResource) -> Self {
        Self::Other(resource)
    }
}
