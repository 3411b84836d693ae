#![doc = include_str!("../README.md")]

mod all_or_nothing;
mod alternatives;
mod completion;
mod disjoint;
mod exclude;
mod facts;
mod gateways;
mod interval;
mod node_name;
pub mod overflow;
mod pool;
mod pool_name;
mod pool_ranges;
mod pools;
mod range;
mod range_set;
mod requests;
mod resolv_conf;
mod rotation;
mod routes;
mod selector;
mod subnet;

pub use all_or_nothing::all_or_nothing;
pub use alternatives::{
    ALTERNATIVES, delegates, serve_any_add, with_alternatives, with_any_pools, without_pools,
};
pub use completion::{Completion, read_routes};
pub use disjoint::Disjoint;
pub use facts::{ANNOTATIONS, Facts};
pub use gateways::refuse_missing_gateway;
pub use interval::{Interval, in_family};
pub use node_name::{NodeName, node_name};
pub use overflow::Overflow;
pub use pool::{LONGEST_STICKY_KEY, Pool};
pub use pool_name::{POOLS_DIRECTORY, PoolName, pools_directory, refuse_reserved_name};
pub use pool_ranges::{range_objects, ranges_of_pool};
pub use pools::{Pools, prev_ips};
pub use range::{ADDRESS_KEYS, NO_GATEWAY, RANGE_KEYS, Range};
pub use range_set::RangeSet;
pub use requests::{RequestedAddress, requests};
pub use rotation::{Candidate, first_free};
pub use routes::Route;
pub use selector::{Selector, SelectorPlugin, pools_or_nothing};
pub use subnet::{parse_address, parse_subnet};

/// A subnet: an address and the length of its prefix.
pub use ipnet::IpNet;

#[cfg(test)]
mod tests;
