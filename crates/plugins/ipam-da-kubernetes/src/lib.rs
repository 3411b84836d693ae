#![doc = include_str!("../README.md")]

use std::io;

use cluster::{address, block};
use cni::{About, Attachment, Call, Command, Error, Object, Plugin, Reply};
use ipam_da_host_local::Folders;
use kubernetes::{Cluster, Engine};

/// The plugin.
pub struct IpamDaKubernetes;

impl Plugin for IpamDaKubernetes {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let cluster = Cluster::read(&call.config.ipam()?)?;
        let mut engine = Engine::new(&cluster, call);
        address::add(&mut engine, &cluster.node, attachment, call).map(Reply::Result)
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let cluster = Cluster::read(&call.config.ipam()?)?;
        let mut engine = Engine::new(&cluster, call);
        address::del(&mut engine, &cluster.node, attachment, call).map(|()| Reply::Nothing)
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let cluster = Cluster::read(&call.config.ipam()?)?;
        let mut engine = Engine::new(&cluster, call);
        address::check(&mut engine, &cluster.node, attachment, call).map(|()| Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let ipam = call.config.ipam()?;
        let cluster = Cluster::read(&ipam)?;
        let mut engine = Engine::new(&cluster, call);
        address::gc(&mut engine, &cluster.node, call)?;
        give_back(&mut engine, &cluster, &ipam, call);
        Ok(Reply::Nothing)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let cluster = Cluster::read(&call.config.ipam()?)?;
        let mut engine = Engine::new(&cluster, call);
        address::status(&mut engine, &cluster.node, self.about().name, call)
            .map(|()| Reply::Nothing)
    }

    /// ADD ends its wait for etcd, and undoes what it may have reserved.
    fn handles_signals(&self, command: Command) -> bool {
        command == Command::Add
    }
}

/// Gives back empty blocks of a pool that was given in blocks before: no address is given by
/// itself until the last one is given back, and a selector of blocks may not be in the chain any
/// more.
fn give_back(engine: &mut Engine<'_>, cluster: &Cluster, ipam: &Object, call: &Call<'_>) {
    let blocks = std::fs::metadata(cluster.node.state_dir.join("blocks"));
    if matches!(blocks, Err(error) if error.kind() == io::ErrorKind::NotFound) {
        return;
    }
    let given_back = Folders::read(ipam)
        .and_then(|folders| block::give_back(engine, &cluster.node, &folders.data_dir, call));
    if let Err(error) = given_back {
        tracing::warn!(%error, "no block is given back");
    }
}
