#![doc = include_str!("../README.md")]

mod args;
mod call;
mod command;
mod config;
mod delegation;
mod entry;
mod error;
#[cfg(test)]
mod example;
mod log;
mod name;
mod object;
mod one_file;
mod plain_file;
mod plugin;
mod replace_file;
mod result;
mod state_folder;
mod trace;
mod version;
mod wait;

pub use args::Args;
pub use call::{AttachmentCommand, Environment, Request};
pub use command::{Command, UnknownCommand};
pub use config::NetworkConfig;
pub use delegation::{
    Answer, DelegateName, Executable, Failure, InvalidDelegateName, Invocation, Printed,
    SearchPath, delegate,
};
pub use entry::{Response, main, respond};
pub use error::{Error, code};
pub use name::{Attachment, ContainerId, IfName, InvalidName, NetworkName};
pub use object::{Object, read};
pub use one_file::{FileId, OneFile};
pub use plain_file::{must_be_file, open_to_write, read_file};
pub use plugin::{About, Call, Plugin, Reply};
pub use replace_file::{replace_file, replace_file_through, unfinished};
pub use result::{Dns, IpConfig, IpamResult};
pub use state_folder::StateFolder;
pub use trace::{TRACEPARENT, TraceContext};
pub use version::{SpecVersion, UnknownVersion};
pub use wait::{Interrupt, wait_for, wait_readable};
