#![doc = include_str!("../README.md")]

mod answer;
mod local;
mod node;
mod pool;

pub use answer::{add, known, with_pools};
pub use local::{Block, Files, Local, Moment};
pub use node::{Held, Need, Node, low};
pub use pool::{Asked, asked, reserved};
