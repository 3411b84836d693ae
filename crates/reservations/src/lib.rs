#![doc = include_str!("../README.md")]

mod change_detection;
mod data_dir;
mod directory;
mod index;
mod last_reserved;
mod leftover_indexes;
mod lock;
mod may_hold;
mod new_file;
mod origin;
mod reclaim;
mod reservation;
mod settings;
mod state;
mod sticky_keys;
mod store;
pub mod view;

pub use data_dir::{DataDir, Stores};
pub use may_hold::Sought;
pub use reservation::{Reservation, address_of_file};
pub use settings::Settings;
pub use state::{State, TORN_AGE};
pub use sticky_keys::StickyPool;
pub use store::Store;
