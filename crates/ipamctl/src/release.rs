//! Releases an attachment: through its chain, or by the files of its reservations.

pub(crate) mod by_chain;
pub(crate) mod by_file;
pub(crate) mod printed_command;
pub(crate) mod releaser;
