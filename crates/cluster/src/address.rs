//! Addresses that are reserved in the engine one by one: the calls of an allocator.

mod add;
pub(crate) mod candidates;
mod check;
mod choice;
mod failed_add;
mod free;
mod release;
mod reservation;
mod rotation_place;
mod status;
mod sticky;

pub use add::add;
pub use check::check;
pub use release::{Entry, Released, del, entries, gc, release};
pub use status::status;
