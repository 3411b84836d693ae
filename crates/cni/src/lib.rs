#![doc = include_str!("../README.md")]

mod args;
mod call;
mod cancellation;
mod command;
mod config;
mod environment;
mod error;
mod excerpt;
mod field;
mod json_output;
mod name;
mod object;
mod plugin;
mod request;
mod result;
mod secrets;
mod trace;
mod version;

pub use args::Args;
pub use call::{Call, Deliver, Reply};
pub use cancellation::Cancellation;
pub use command::Command;
pub use config::NetworkConfig;
pub use environment::{DELEGATE, Environment, ROLLBACK};
pub use error::{Error, code};
pub use excerpt::{Excerpt, OneLine};
pub use field::is_field;
pub use json_output::JsonOutput;
pub use name::{
    Attachment, ContainerId, DelegateName, IfName, InvalidName, NetworkName, holds_nothing,
};
pub use object::{Object, read};
pub use plugin::{About, LinkedOutput, LinkedPlugin, Plugin};
pub use request::Request;
pub use result::{Dns, IpConfig, IpamResult, parse_cidr, verify_route};
pub use secrets::without_secrets;
pub use trace::{TRACEPARENT, TraceContext};
pub use version::SpecVersion;
