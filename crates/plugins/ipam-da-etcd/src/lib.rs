#![doc = include_str!("../README.md")]

mod add;
mod candidates;
mod check;
mod choice;
mod failure;
mod known_definitions;
mod last_given;
mod release;
mod status;
mod sticky;
pub mod tools;
mod view;

use cni::{About, Attachment, Call, Command, Error, Plugin, Reply};

/// The plugin.
pub struct IpamDaEtcd;

impl Plugin for IpamDaEtcd {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        add::add(attachment, call).map(Reply::Result)
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        release::del(attachment, call).map(|()| Reply::Nothing)
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        check::check(attachment, call).map(|()| Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        release::gc(call).map(|()| Reply::Nothing)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        status::status(call).map(|()| Reply::Nothing)
    }

    /// ADD ends its wait for etcd, and takes back what it may have taken.
    fn handles_signals(&self, command: Command) -> bool {
        command == Command::Add
    }
}
