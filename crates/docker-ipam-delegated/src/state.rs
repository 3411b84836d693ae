//! The daemon's state: its values, and the files and records that keep them.

pub(crate) mod address_record;
pub mod attachment_id;
pub(crate) mod caller_line;
pub(crate) mod endpoint;
pub(crate) mod files;
pub(crate) mod network;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod stage;
#[cfg(test)]
mod tests;
pub(crate) mod unread;
pub(crate) mod version;
pub mod view;
