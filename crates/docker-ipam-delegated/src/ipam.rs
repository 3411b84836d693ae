//! Docker's IPAM driver: pools and addresses, out of chains.

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
