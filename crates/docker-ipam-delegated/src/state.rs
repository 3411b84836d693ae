//! What the daemon remembers, and its files.

pub(crate) mod address_record;
pub(crate) mod address_space;
pub mod attachment_id;
pub(crate) mod caller_line;
pub(crate) mod endpoint;
pub(crate) mod files;
pub(crate) mod network;
pub(crate) mod pool;
pub mod view;
