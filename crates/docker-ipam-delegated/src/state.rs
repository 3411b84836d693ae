//! The daemon's state: its values, and the files and records that keep them.

pub mod attachment_id;
pub(crate) mod endpoint;
pub(crate) mod files;
pub(crate) mod pool;
pub(crate) mod record;
#[cfg(test)]
mod tests;
pub(crate) mod unread;
pub(crate) mod version;
pub mod view;
