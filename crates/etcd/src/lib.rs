#![doc = include_str!("../README.md")]

mod authentication;
mod client;
mod codec;
mod connection;
mod error;
mod executor;
mod failover;
mod files;
mod messages;
mod request;
mod session;

pub use client::{Client, Moment};
pub use error::{Error, Kind};
pub use etcd_settings::{DEFAULT_TIMEOUT, Endpoint, Login, Settings};
pub use messages::{KeyValue, MemberStatus};
pub use request::{Branch, Compare, Op, OpAnswer, Range, RangeAnswer, Txn, TxnAnswer};
