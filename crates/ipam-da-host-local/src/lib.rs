#![doc = include_str!("../README.md")]

mod add;
mod check;
mod claims;
mod config;
mod directory;
mod lock;
mod occupancy;
mod release;
mod status;
mod whole_file;

use cni::{About, Attachment, Call, Error, Plugin, Reply};

/// The plugin.
pub struct IpamDaHostLocal;

impl Plugin for IpamDaHostLocal {
    fn about(&self) -> About {
        About {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            summary: env!("CARGO_PKG_DESCRIPTION"),
        }
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        add::add(attachment, &call.config).map(Reply::Result)
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        release::del(attachment, &call.config).map(|()| Reply::Nothing)
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        check::check(attachment, &call.config).map(|()| Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        release::gc(&call.config).map(|()| Reply::Nothing)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        status::status(&call.config).map(|()| Reply::Nothing)
    }
}
