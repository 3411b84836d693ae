#![doc = include_str!("../README.md")]

mod absence;
mod file_id;
mod file_lock;
mod journal;
mod names;
mod ownership;
mod regular_file;
mod state_folder;
mod threads;
mod wait;

pub use absence::{is_absent, open_if_there};
pub use file_id::FileId;
pub use file_lock::{MOST_RACES, lock_file};
pub use journal::{Journal, whole_lines};
pub use names::{names_in, parsed_names_in};
pub use ownership::is_refused;
pub use regular_file::{open_regular, read_regular, read_whole, remove_file};
pub use state_folder::StateFolder;
pub use threads::in_threads;
pub use wait::wait_for;
