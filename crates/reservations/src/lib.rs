#![doc = include_str!("../README.md")]

mod change_detection;
mod data_dir;
mod directory;
mod index;
mod last_reserved;
mod leftover_caches;
mod lock;
mod new_file;
mod origin;
mod reclaim;
mod reservation;
mod reservation_cache;
mod reservation_list;
mod sticky_keys;
mod store;
pub mod tools;

pub use data_dir::{DataDir, Settings, Sought, Stores};
pub use directory::{State, TORN_AGE};
pub use reservation::{Reservation, address_of_file};
pub use sticky_keys::StickyPool;
pub use store::Store;
