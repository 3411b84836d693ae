//! Directories of reservations in a temporary folder.
//!
//! Needs: Rust. Takes a second.

mod common;
mod data_dir;
mod store;
