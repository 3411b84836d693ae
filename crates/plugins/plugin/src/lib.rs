#![doc = include_str!("../README.md")]

mod command_line;
mod entry;
mod linked;
mod log;
mod multi_call;
mod respond;
mod signals;
mod stderr;
#[cfg(test)]
mod tests;
mod version_mark;

pub use command_line::version_with_commit;
pub use entry::main;
pub use linked::Linked;
pub use multi_call::{MultiCall, own_executable};
pub use respond::{Output, respond};
pub use stderr::write_to_stderr;
pub use version_mark::{VERSION_MARK, version};
