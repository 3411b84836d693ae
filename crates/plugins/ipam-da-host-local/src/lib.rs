#![doc = include_str!("../README.md")]

mod add;
mod check;
mod holder;
mod release;
mod status;
mod storage;

pub use storage::data_dir;

use cni::{About, Attachment, Call, Command, Error, Plugin, Reply};

/// The allocator `ipam-da-host-local`: reserves an address of each pool in `host-local`'s files.
pub struct IpamDaHostLocal;

impl Plugin for IpamDaHostLocal {
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

    /// On ADD, a signal ends the wait for a lock, and the call completes or undoes its work.
    fn handles_signals(&self, command: Command) -> bool {
        command == Command::Add
    }
}
