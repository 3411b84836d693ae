#![doc = include_str!("../README.md")]

mod client;
mod codec;
mod connection;
mod error;
mod executor;
mod files;
mod messages;
mod request;
mod session;
mod settings;

pub use client::Client;
pub use error::{Error, Kind};
pub use messages::{KeyValue, MemberStatus};
pub use request::{Branch, Compare, Op, OpAnswer, Range, RangeAnswer, Txn, TxnAnswer};
pub use settings::{DEFAULT_TIMEOUT, Endpoint, Login, Settings};
