#![doc = include_str!("../README.md")]

mod client;
mod engine;
mod failure;
mod keys;
mod messages;
mod settings;
mod store;
mod url;

pub use client::Client;
pub use engine::ENGINE;
pub use keys::Keys;
pub use messages::{Compare, KeyValue, Op, Range, RangeAnswer, Txn};
pub use settings::Settings;
pub use store::EtcdStore;
pub use url::Url;
