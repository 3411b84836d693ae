#![doc = include_str!("../README.md")]

mod data_dir;
mod directory;
mod lock;
mod new_file;
mod release;
mod reservation;
mod rotation_file;
mod state;
mod store;
pub mod view;

pub use data_dir::{DATA_DIR, DataDir, Stores};
pub use reservation::{Reservation, address_of_file};
pub use rotation_file::RotationFile;
pub use state::State;
pub use store::{Reserved, Store};
