#![doc = include_str!("../README.md")]

mod add;
mod claims;
mod collect;
mod status;
mod verify;

pub use collect::give_back;

use cni::{About, Attachment, Call, Error, Plugin, Reply};
use node_blocks::with_pools;

/// The plugin.
pub struct IpamDsEtcd;

impl Plugin for IpamDsEtcd {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        add::add(call).map(Reply::Result)
    }

    // On DEL and CHECK, the node's file is enough, and etcd isn't asked.

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(known(call))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(known(call))
    }

    /// Blocks that are not given back now will be by a later GC; the allocator behind needs
    /// the pools all the same.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        if let Err(error) = collect::give_back(call, None) {
            tracing::warn!(%error, "no block is given back");
        }
        Ok(known(call))
    }

    /// Prints an empty list of pools: the node's blocks may be full, and a further one free in
    /// etcd; and the allocator behind doesn't know the names that stand in `prevResult`.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        status::status(call)?;
        with_pools(call, &[]).map(Reply::Result)
    }
}

/// `prevResult` with the blocks of the node's files; nothing, if there are none.
fn known(call: &Call<'_>) -> Reply {
    node_blocks::known(call).unwrap_or_else(|error| {
        tracing::debug!(%error, "no pools are printed");
        Reply::Nothing
    })
}
