//! The blocks of pools that this node has claimed: the calls of a selector, which passes them to
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

use crate::Node;
use crate::node::boot_file::BootFile;

/// This node, and the files of its blocks.
#[derive(Debug)]
pub(crate) struct BlockNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) files: BlockFiles,
    /// The boot's ID; `None` if it can't be read.
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

    /// True if the blocks were compared with this engine after the node's registration in this
    /// boot. Without a comparison, the disk may be an old one, or a copy.
    pub(crate) fn is_verified(&self, file: &PoolFile) -> bool {
        self.incarnation.is_some() && file.verified_in == self.incarnation && file.is_of(self.node)
    }
}
