#![doc = include_str!("../README.md")]

mod all_or_nothing;
mod completion;
mod disjoint;
mod exclude;
mod interval;
mod pool;
mod pool_name;
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
pub use completion::{Completion, read_routes};
pub use disjoint::Disjoint;
pub use interval::{Interval, in_family};
pub use pool::{LONGEST_STICKY_KEY, Pool, parse_address, range_objects};
pub use pool_name::PoolName;
pub use pools::{
    append_pools, has_ranges, pool_names, pool_objects, pools, pools_of_result, ranged_pools,
    read_pools,
};
pub use range::{RANGE_KEYS, Range, refuse_unclear_keys};
pub use range_set::RangeSet;
pub use requests::{Request, requests, unserved};
pub use rotation::Candidate;
pub use routes::Route;
pub use selector::{Selector, SelectorPlugin, pools_or_nothing};
pub use subnet::parse_subnet;

/// A subnet: an address and the length of its prefix.
pub use ipnet::IpNet;

#[cfg(test)]
mod tests;
