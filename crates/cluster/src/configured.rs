//! A cluster as the configuration of a network describes it.

use std::fmt;

use cni::Cancellation;

use crate::{Engine, Node};

/// A cluster as the `ipam` section of a network describes it: this node, and the engine that keeps
/// the pools.
pub trait ConfiguredCluster: fmt::Debug {
    /// This node. Its prefix and its endpoints identify the cluster.
    fn node(&self) -> &Node;

    /// The engine for the requests of one call. It connects with the first request.
    fn engine<'a>(&'a self, cancellation: Option<&'a dyn Cancellation>) -> Box<dyn Engine + 'a>;

    /// Name of the cluster in messages, such as `etcd:/ipam`.
    fn path(&self) -> String;

    /// Name of a pool's addresses in messages, such as `etcd:/ipam/v1/addresses/web`. A slash and
    /// the address follow it in the name of one address.
    fn path_of_addresses(&self, pool: &str) -> String;
}
