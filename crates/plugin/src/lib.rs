#![doc = include_str!("../README.md")]

mod command_line;
mod entry;
mod log;
mod multi_call;
mod signals;
mod stdio;
#[cfg(test)]
mod tests;
mod version_mark;

pub use command_line::version_with_commit;
pub use entry::{Linked, Response, main, respond};
pub use multi_call::{MultiCall, own_executable};
pub use stdio::write_to_stderr;
pub use version_mark::{VERSION_MARK, version};
