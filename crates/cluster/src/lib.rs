#![doc = include_str!("../README.md")]

mod add;
mod call_attachment;
mod check;
mod choice;
pub mod client;
mod holder;
mod key;
mod node;
mod owner;
mod plugin;
mod pools;
mod release;
mod repetition;
mod restore;
mod search;
mod status;
mod store;
mod store_error;
mod time_limit;

pub use add::add;
pub use call_attachment::CallAttachment;
pub use check::check;
pub use holder::{Held, Holder, Owner, hash, rfc3339};
pub use key::AddressKey;
pub use node::Node;
pub use owner::of_owner;
pub use plugin::{Allocator, Engine};
pub use release::{del, gc, release_each};
pub use repetition::{of_node, until_answered};
pub use restore::{RecordedAdd, Remembered, Restored, reconcile, restore};
pub use status::status;
pub use store::{Among, Claim, Inventory, ListedPool, Release, Selection, Store};
pub use store_error::{Kind, StoreError};
pub use time_limit::{DEFAULT_TIMEOUT, TimeLimit};
