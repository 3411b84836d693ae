#![doc = include_str!("../README.md")]

mod args;
mod boot;
mod call;
mod cancellation;
mod command;
mod config;
mod deadline;
mod delegate_name;
mod environment;
mod error;
mod excerpt;
mod file_id;
mod json_output;
mod name;
mod netns;
mod object;
mod ownership;
mod plugin;
mod result;
mod secrets;
mod state_folder;
mod threads;
mod trace;
mod version;
mod wait;

pub use args::Args;
pub use boot::{Boot, boot_id};
pub use call::{AttachmentCommand, Request};
pub use cancellation::Cancellation;
pub use command::{Command, UnknownCommand};
pub use config::NetworkConfig;
pub use deadline::Deadline;
pub use delegate_name::{DelegateName, InvalidDelegateName, is_selector};
pub use environment::{CHAIN_CALL, Environment, ROLLBACK};
pub use error::{Error, code};
pub use excerpt::{Excerpt, OneLine};
pub use file_id::FileId;
pub use json_output::JsonOutput;
pub use name::{Attachment, ContainerId, IfName, InvalidName, NetworkName};
pub use netns::is_namespace;
pub use object::{Object, read};
pub use plugin::{
    About, Call, Deliver, LinkedAnswer, LinkedOutput, LinkedPart, LinkedPlugin, PartialPlugin,
    Plugin, Reply,
};
pub use result::{Dns, IpConfig, IpamResult};
pub use secrets::without_secrets;
pub use state_folder::StateFolder;
pub use threads::in_threads;
pub use trace::{TRACEPARENT, TraceContext};
pub use version::{SpecVersion, UnknownVersion};
pub use wait::{wait_for, wait_readable, wait_writable};
