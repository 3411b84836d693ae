#![doc = include_str!("../README.md")]

mod authentication;
mod client;
mod cluster_settings;
mod connection;
mod endpoint;
mod engine;
mod failover;
mod keys;
mod messages;
mod request;
mod session;
mod settings;
mod settings_file;

pub use client::Client;
pub use cluster_settings::Cluster;
pub use endpoint::Endpoint;
pub use engine::Engine;
pub use keys::Keys;
pub use messages::{Compare, KeyValue, Op, Range, RangeAnswer, Txn};
pub use request::TxnAnswer;
pub use settings::{Login, Settings};
