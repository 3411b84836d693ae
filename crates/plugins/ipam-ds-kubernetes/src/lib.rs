#![doc = include_str!("../README.md")]

use std::path::PathBuf;

use cluster::block;
use cni::{About, Attachment, Call, Error, Plugin, Reply};
use ipam_da_host_local::Folders;
use kubernetes::{Cluster, Engine};

/// The plugin.
pub struct IpamDsKubernetes;

impl Plugin for IpamDsKubernetes {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let (cluster, data_dir) = read(call)?;
        let mut engine = Engine::new(&cluster, call);
        block::add(&mut engine, &cluster.node, &data_dir, call).map(Reply::Result)
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(known(call))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(known(call))
    }

    /// Blocks that are not given back now will be by a later GC; the allocator behind needs
    /// the pools all the same.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let given_back = read(call).and_then(|(cluster, data_dir)| {
            let mut engine = Engine::new(&cluster, call);
            block::give_back(&mut engine, &cluster.node, &data_dir, call)
        });
        if let Err(error) = given_back {
            tracing::warn!(%error, "no block is given back");
        }
        Ok(known(call))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let (cluster, data_dir) = read(call)?;
        let mut engine = Engine::new(&cluster, call);
        block::status(
            &mut engine,
            &cluster.node,
            &data_dir,
            self.about().name,
            call,
        )?;
        block::without_pools(call).map(Reply::Result)
    }
}

/// The cluster, and the folder of the reservations.
fn read(call: &Call<'_>) -> Result<(Cluster, PathBuf), Error> {
    let ipam = call.config.ipam()?;
    Ok((Cluster::read(&ipam)?, Folders::read(&ipam)?.data_dir))
}

/// `prevResult` with the blocks of the node's files; nothing if there are none.
fn known(call: &Call<'_>) -> Reply {
    let known = read(call).map(|(cluster, data_dir)| {
        let engine = Engine::new(&cluster, call);
        block::known_pools(&engine, &cluster.node, &data_dir, call)
    });
    known.unwrap_or_else(|error| {
        tracing::debug!(%error, "no pools are printed");
        Reply::Nothing
    })
}
