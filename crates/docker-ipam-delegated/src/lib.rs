#![doc = include_str!("../README.md")]
// Without the daemon, `ipamctl` uses only a part of these types.
#![cfg_attr(not(feature = "daemon"), allow(dead_code))]

#[cfg(feature = "daemon")]
mod command_line;
#[cfg(feature = "daemon")]
mod daemon;
#[cfg(feature = "daemon")]
mod docker;
#[cfg(feature = "daemon")]
mod go_json;
#[cfg(feature = "daemon")]
mod http;
#[cfg(feature = "daemon")]
mod ipam;
pub mod linked_plugins;
#[cfg(feature = "daemon")]
mod network;
mod pool_filter;
pub mod records;
#[cfg(feature = "daemon")]
mod threads;

#[cfg(feature = "daemon")]
pub use daemon::main;
