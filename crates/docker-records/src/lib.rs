//! What the daemon for Docker remembers, for the daemon itself and for tools: the pools, whose IDs
//! Docker stores; the daemon's lines in the records of attachments; and the plugins that are linked
//! into the daemon, with which a record's attachment is released.

pub mod linked_plugins;
pub mod pool;
pub mod pool_filter;
pub mod records;
