//! What the daemon remembers, and its files.

pub(crate) mod address_space;
pub(crate) mod endpoint;
pub(crate) mod journal;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod pool;
pub mod view;
