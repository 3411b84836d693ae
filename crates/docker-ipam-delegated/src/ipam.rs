//! Docker's IPAM driver: pools and addresses, out of chains.
//!
//! `pool_calls` and `address_calls` answer Docker; `requests` reads what it asks for, `facts` its options.
//! `pool_chain` finds the chain of a pool and its configuration (`chain_config`, `conflists`), and `chains`
//! runs it with our plugins linked into this process. Each address is an attachment with a record:
//! `recorded` reads them at the start, and `allocations` has them in memory.

pub(crate) mod address_calls;
pub(crate) mod allocations;
pub(crate) mod chain_config;
pub(crate) mod chains;
pub(crate) mod conflists;
pub(crate) mod default_pools;
pub(crate) mod facts;
pub(crate) mod host_routes;
pub(crate) mod ipam_driver;
pub(crate) mod plugins;
pub(crate) mod pool_calls;
pub(crate) mod pool_chain;
pub(crate) mod recorded;
pub(crate) mod requests;
