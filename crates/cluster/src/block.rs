//! Blocks of pools that this node has claimed: the calls of a selector, which hands them to
//! `ipam-da-host-local`.

mod add;
mod asked;
mod claim;
mod compare;
mod give_back;
mod known_pools;
pub(crate) mod layout;
pub(crate) mod pool_file;
mod room;
mod status;

pub use add::add;
pub use asked::reserved;
pub use give_back::give_back;
pub use known_pools::{known_pools, without_pools};
pub use layout::{block_of, blocks};
pub(crate) use pool_file::overlap;
pub use pool_file::{Block, BlockFiles, PoolFile};
pub use status::status;

use std::path::{Path, PathBuf};

use cni::{Call, Error};
use state_files::boot_id;

use crate::node::boot_file::BootFile;
use crate::{Definition, Engine, Key, Node};

/// This node with the files of its blocks.
#[derive(Debug)]
pub(crate) struct BlockNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) files: BlockFiles,
    /// The boot; `None` if it isn't known.
    boot: Option<String>,
    /// The incarnation of the node's registration in this boot; `None` before the first one.
    incarnation: Option<String>,
}

impl<'a> BlockNode<'a> {
    /// Opens the files. `data_dir` is `ipam.dataDir`, the folder of the reservations.
    pub(crate) fn open(node: &'a Node, data_dir: &Path, call: &Call<'_>) -> Result<Self, Error> {
        let registration = BootFile::open(node)?.read(call.environment)?;
        Ok(Self {
            files: BlockFiles::open(node, PathBuf::from(data_dir))?,
            boot: boot_id(call.environment),
            incarnation: registration.map(|registration| registration.incarnation),
            node,
        })
    }

    /// A pool's definition in the node's file.
    pub(crate) fn definition(
        &self,
        engine: &dyn Engine,
        file: &PoolFile,
    ) -> Result<Definition, Error> {
        let json = serde_json::to_vec(&file.definition).expect("an object is JSON");
        Definition::parse(&engine.path(&Key::Pool(file.pool().to_owned())), &json)
    }

    /// True if the blocks were compared with this engine's since the node registered in this
    /// boot: before that, the disk may be an old one, or a copy.
    pub(crate) fn is_verified(&self, file: &PoolFile) -> bool {
        self.incarnation.is_some() && file.verified_in == self.incarnation && file.is_of(self.node)
    }
}
