//! What a node holds, for tools: to read it, and to release it.

pub use crate::release::{Entry, Outcome, Right, entries, release};
