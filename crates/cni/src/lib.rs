#![doc = include_str!("../README.md")]

mod args;
mod call;
mod cancellation;
mod command;
mod config;
mod environment;
mod error;
mod excerpt;
mod json_output;
mod name;
mod object;
mod plugin;
mod result;
mod secrets;
mod trace;
mod version;

pub use args::Args;
pub use call::Request;
pub use cancellation::Cancellation;
pub use command::Command;
pub use config::NetworkConfig;
pub use environment::{CHAIN_CALL, Environment, ROLLBACK};
pub use error::{Error, code};
pub use excerpt::{Excerpt, OneLine};
pub use json_output::JsonOutput;
pub use name::{
    Attachment, ContainerId, DelegateName, IfName, InvalidName, NetworkName, is_selector,
};
pub use object::{Object, read};
pub use plugin::{About, Call, Deliver, LinkedOutput, LinkedPlugin, Plugin, Reply};
pub use result::{Dns, IpConfig, IpamResult};
pub use secrets::without_secrets;
pub use trace::{TRACEPARENT, TraceContext};
pub use version::SpecVersion;
