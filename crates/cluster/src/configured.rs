//! A cluster as a network's configuration describes it.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;

use cni::{Call, Cancellation};

use crate::{Engine, Node};

/// A cluster as the `ipam` section of a network describes it: this node, and the engine with the
/// pools.
pub trait ConfiguredCluster: Any + fmt::Debug {
    /// This node. Its prefix and its endpoints identify the cluster.
    fn node(&self) -> &Node;

    /// The engine for the requests of one call. It connects with the first request.
    fn engine<'a>(&'a self, cancellation: Option<&'a dyn Cancellation>) -> Box<dyn Engine + 'a>;

    /// The engine of a plugin's call.
    fn engine_of<'a>(&'a self, call: &'a Call<'_>) -> Box<dyn Engine + 'a> {
        self.engine(call.cancellation)
    }

    /// Name of the cluster in messages, such as `etcd:/ipam`.
    fn path(&self) -> String;

    /// Name of a pool's addresses in messages, such as `etcd:/ipam/v1/addresses/web`.
    fn path_of_addresses(&self, pool: &str) -> String;

    /// Name of one address in messages, such as `etcd:/ipam/v1/addresses/web/10.0.0.5`.
    fn path_of_address(&self, pool: &str, ip: IpAddr) -> String {
        format!("{}/{ip}", self.path_of_addresses(pool))
    }
}
