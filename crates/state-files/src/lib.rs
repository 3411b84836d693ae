#![doc = include_str!("../README.md")]

mod boot;
mod deadline;
mod file_id;
mod file_lock;
mod journal;
mod names;
mod netns;
mod ownership;
mod regular_file;
mod state_folder;
mod threads;
mod wait;

pub use boot::{Boot, boot_id};
pub use deadline::Deadline;
pub use file_id::FileId;
pub use file_lock::lock_file;
pub use journal::{Journal, whole_lines};
pub use names::names_in;
pub use netns::is_namespace;
pub use regular_file::{open_regular, read_regular, read_whole};
pub use state_folder::StateFolder;
pub use threads::in_threads;
pub use wait::{wait_for, wait_readable, wait_writable};
