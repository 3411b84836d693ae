//! The kinds `Pool` and `Address`, from which the manifests are made. By their rules, the API server
//! itself refuses a wrong object, with a message for whoever writes it. An `Address` is made of these
//! types; a `Pool` is read as it is written.

// The derive makes a private copy of each public struct.
#![allow(unreachable_pub)]

use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A reserved address and its holder: an attachment, or an owner.
//
// The API server evaluates each column for each name that it lists, so there are few.
#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(
    group = "ipam-delegated.io",
    version = "v1",
    kind = "Address",
    plural = "addresses",
    shortname = "ipaddr",
    category = "ipam",
    label("app.kubernetes.io/name", "ipam-delegated"),
    doc = "An address that is reserved for an interface of a container. Its creation is the reservation, which fails if the object exists; its deletion is the release. A node creates and deletes its own, and creates those of owners. ipamctl node-forget releases those of a lost node, ipamctl release those of an owner.",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.pool"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.namespace"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.pod"),
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.owner"),
    validation = Rule::new(NAME_RULE).message("the name must be the address, after its space and a dot if it has one, with an IPv6 address as eight groups with - between them, such as 10.0.0.5, blue.10.0.0.5 or fd00-0-0-0-0-0-0-5"),
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("an address never changes: a new holder is a new object"))]
#[x_kube(validation = Rule::new("has(self.owner) ? has(self.place) && !has(self.node) && !has(self.containerID) : has(self.node) && has(self.containerID) && !has(self.place)").message("the holder must be either node and containerID, or owner and place"))]
#[serde(rename_all = "camelCase")]
pub struct AddressSpec {
    /// The address, in its shortest spelling.
    #[schemars(length(max = 39))]
    #[x_kube(validation = Rule::new("isIP(self) && ip.isCanonical(self)").message("it must be an IP address in its shortest spelling, such as 10.0.0.5 or fd00::5"))]
    pub ip: String,
    /// The address space, if there are several with the same addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub space: Option<String>,
    /// Name of the pool that gave the address.
    #[schemars(length(max = 253))]
    pub pool: String,
    /// Name of the Node that reserved the address; none if it is an owner's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub node: Option<String>,
    /// What the address belongs to instead of a container, such as statefulsets.apps/prod/db: all of
    /// its containers have it. It is released by ipamctl release, or by the collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub owner: Option<String>,
    /// Index of an owner's address among those of an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub place: Option<i32>,
    /// Name of the CNI network.
    #[schemars(length(max = 1024))]
    pub network: String,
    /// ID of the container or pod sandbox in its runtime; none if it is an owner's.
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub container_id: Option<String>,
    /// The interface in the container.
    #[schemars(length(max = 15))]
    pub ifname: String,
    /// Time of the reservation by the node's clock, RFC 3339.
    #[schemars(length(max = 64))]
    pub since: String,
    /// The pod's namespace, if the runtime told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,
    /// The pod's name, if the runtime told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pod: Option<String>,
}

/// The name of an `Address` is its address. CEL can't write an IPv6 address with all its groups, so
/// it reads the one in the name.
const NAME_RULE: &str = "!isIP(self.spec.ip) || (ip(self.spec.ip).family() == 4 \
    ? self.metadata.name == (has(self.spec.space) ? self.spec.space + '.' : '') + self.spec.ip \
    : self.metadata.name.matches('^(.*[.])?(0|[1-9a-f][0-9a-f]{0,3})(-(0|[1-9a-f][0-9a-f]{0,3})){7}$') \
    && (has(self.spec.space) ? self.metadata.name.startsWith(self.spec.space + '.') : true) \
    && isIP(self.metadata.name.substring(has(self.spec.space) ? self.spec.space.size() + 1 : 0).replace('-', ':')) \
    && ip(self.metadata.name.substring(has(self.spec.space) ? self.spec.space.size() + 1 : 0).replace('-', ':')) == ip(self.spec.ip))";

/// Definition of a pool: `ranges`, or the keys of one range.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[kube(
    group = "ipam-delegated.io",
    version = "v1",
    kind = "Pool",
    plural = "pools",
    shortname = "ipool",
    category = "ipam",
    label("app.kubernetes.io/name", "ipam-delegated"),
    doc = "A named set of ranges of addresses, for all nodes. Each ADD reads it. Addresses that are reserved stay so, whatever its ranges are changed to.",
    printcolumn(
        name = "Ranges",
        type_ = "string",
        json_path = ".spec['subnet','ranges']"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(validation = Rule::new("has(self.ranges) != has(self.subnet)").message("the definition must have either ranges or subnet"))]
#[x_kube(validation = Rule::new("has(self.space) ? has(oldSelf.space) && self.space == oldSelf.space : !has(oldSelf.space)").message("space never changes, since all addresses would be free in another one: make another pool"))]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// Ranges whose addresses are given one after the other, all of one IP version.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.all(range, has(range.subnet))").message("each range must have a subnet"))]
    #[x_kube(validation = Rule::new(FAMILY_RULE).message("all ranges must be of one IP version"))]
    pub ranges: Option<Vec<RangeSpec>>,
    /// The keys of the only range.
    #[serde(flatten)]
    pub range: RangeSpec,
    /// The address space, if several pools have the same addresses on networks of their own. It never
    /// changes.
    #[schemars(length(max = 200))]
    #[x_kube(validation = Rule::new(SPACE_RULE).message("a space must be a DNS name in lower case"))]
    pub space: Option<String>,
}

/// A range of addresses.
#[derive(KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[x_kube(validation = Rule::new(START_RULE).message("rangeStart must be in the subnet"))]
#[x_kube(validation = Rule::new(END_RULE).message("rangeEnd must be in the subnet"))]
#[x_kube(validation = Rule::new(SIZE_RULE).message("a subnet must have room for a gateway, at least a /30 (IPv4) or a /126 (IPv6), unless the gateway is none"))]
#[serde(rename_all = "camelCase")]
pub struct RangeSpec {
    /// The subnet in CIDR notation, without host bits, such as 10.40.0.0/16: at least a /30 (IPv4) or
    /// a /126 (IPv6), unless the gateway is none.
    #[schemars(default, schema_with = "subnet")]
    pub subnet: Option<String>,
    /// The first address to give; by default the subnet's second one.
    #[schemars(default, schema_with = "address")]
    pub range_start: Option<String>,
    /// The last address to give; by default the subnet's last one, for IPv4 the one before.
    #[schemars(default, schema_with = "address")]
    pub range_end: Option<String>,
    /// An address that is never given, by default the subnet's second one; or none.
    #[schemars(default, schema_with = "gateway")]
    pub gateway: Option<String>,
    /// Addresses that are given only on request: 10.40.0.5, 10.40.0.64/28 or
    /// 10.40.0.10-10.40.0.20.
    #[schemars(default, schema_with = "exclusions")]
    pub exclude: Option<Vec<String>>,
}

const START_RULE: &str = "!has(self.rangeStart) || !isIP(self.rangeStart) || !has(self.subnet) || \
    !isCIDR(self.subnet) || cidr(self.subnet).containsIP(self.rangeStart)";
const END_RULE: &str = "!has(self.rangeEnd) || !isIP(self.rangeEnd) || !has(self.subnet) || \
    !isCIDR(self.subnet) || cidr(self.subnet).containsIP(self.rangeEnd)";

const SIZE_RULE: &str = "!has(self.subnet) || !isCIDR(self.subnet) || (has(self.gateway) && self.gateway == 'none') || \
    cidr(self.subnet).prefixLength() <= (cidr(self.subnet).ip().family() == 4 ? 30 : 126)";

const FAMILY_RULE: &str = "self.all(range, !has(range.subnet) || !isCIDR(range.subnet) || \
    !has(self[0].subnet) || !isCIDR(self[0].subnet) || \
    cidr(range.subnet).ip().family() == cidr(self[0].subnet).ip().family())";
/// A space is a part of the names of its addresses.
const SPACE_RULE: &str =
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";

fn subnet(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 43,
        "x-kubernetes-validations": [
            {"rule": "isCIDR(self)", "message": "it must be a subnet in CIDR notation, such as 10.40.0.0/16"},
            {"rule": "!isCIDR(self) || cidr(self).masked() == cidr(self)", "message": "a subnet must not have host bits"},
        ],
    })
}

fn address(_: &mut SchemaGenerator) -> Schema {
    address_by("self == '' || isIP(self)", "it must be an IP address")
}

fn gateway(_: &mut SchemaGenerator) -> Schema {
    let rule = "self == '' || self == 'none' || isIP(self)";
    address_by(rule, "it must be an IP address, or none")
}

fn address_by(rule: &str, message: &str) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 39,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    })
}

fn exclusions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": {
            "type": "string",
            "maxLength": 79,
            "x-kubernetes-validations": [{
                "rule": "isIP(self) || isCIDR(self) || (self.contains('-') && isIP(self.substring(0, self.indexOf('-'))) && isIP(self.substring(self.indexOf('-') + 1)))",
                "message": "it must be an address, a subnet or an interval such as 10.40.0.10-10.40.0.20",
            }],
        },
    })
}

/// The manifests of the kinds, by the names of their files: YAML.
pub fn manifests() -> [(&'static str, String); 2] {
    let yaml = |crd| {
        let text = yaml_serde::to_string(&crd).expect("a definition can be written as YAML");
        format!("# Made by cargo manifests from crates/kubernetes/src/kinds.rs.\n{text}")
    };
    [
        ("addresses.yaml", yaml(Address::crd())),
        ("pools.yaml", yaml(Pool::crd())),
    ]
}
