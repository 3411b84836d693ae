use std::path::PathBuf;

use cluster::{Inventory, Node};
use cni::{Cancellation, Error, Object};

use crate::{EtcdStore, Settings};

/// etcd as the engine of a cluster's pools: how a network's configuration leads to it.
pub static ENGINE: Engine = Engine;

/// The type of [`ENGINE`].
#[derive(Debug)]
pub struct Engine;

impl cluster::Engine for Engine {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn open<'a>(
        &self,
        ipam: &Object,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Result<Box<dyn Inventory + 'a>, Error> {
        Ok(Box::new(EtcdStore::new(Settings::of(ipam)?, cancellation)))
    }

    fn file(&self, ipam: &Object) -> Result<PathBuf, Error> {
        Settings::file_of(ipam)
    }

    fn node(&self, ipam: &Object) -> Result<Node, Error> {
        Node::with_machine(ipam)
    }
}
