#![doc = include_str!("../README.md")]

mod absence;
mod deadline;
mod file_id;
mod file_lock;
mod journal;
mod names;
mod netns;
mod ownership;
mod patience;
mod regular_file;
mod state_folder;
mod threads;
mod wait;

pub use absence::{is_absent, open_if_there};
pub use deadline::Deadline;
pub use file_id::FileId;
pub use file_lock::lock_file;
pub use journal::{Journal, whole_lines};
pub use names::{names_in, parsed_names_in};
pub use netns::is_namespace;
pub use ownership::is_refused;
pub use patience::{MOST_FOR_LOCK, MOST_FOR_STDERR, MOST_RACES};
pub use regular_file::{open_regular, read_regular, read_whole, remove_file};
pub use state_folder::StateFolder;
pub use threads::in_threads;
pub use wait::{wait_for, wait_readable, wait_writable};
