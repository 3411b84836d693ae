#![doc = include_str!("../README.md")]

mod interval;
mod invalid;
mod pool;
mod range;
mod range_set;
mod resolv_conf;
mod rotation;
mod subnet;

pub use interval::Interval;
pub use invalid::Invalid;
pub use pool::{Pool, PoolConfig, parse_address};
pub use range::{Range, RangeConfig};
pub use range_set::RangeSet;
pub use resolv_conf::ResolvConf;
pub use rotation::Candidate;
pub use subnet::parse_subnet;

/// A subnet: an address and the length of its prefix.
pub use ipnet::IpNet;
