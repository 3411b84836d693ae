#![doc = include_str!("../README.md")]

mod blocks;
mod definition;
mod holder;
mod keys;
mod node;
mod random;
mod registration;
mod since;

pub use blocks::{block_of, blocks, ranges_in, some_blocks};
pub use definition::{Definition, DefinitionError};
pub use holder::{BlockOwner, Holder};
pub use keys::{HeldKey, Keys};
pub use node::node_name;
pub use random::random_address;
pub use registration::{BootFile, Machine, Registration};
pub use since::Since;

use cni::{Error, Object};
use etcd_settings::Settings;

/// What the configuration says of the cluster: `ipam.etcd` and `ipam.node`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `ipam.etcd`.
    pub settings: Settings,
    /// `ipam.node`, or the host's name.
    pub node: String,
    /// The keys below the prefix.
    pub keys: Keys,
}

impl Cluster {
    /// Reads it from the `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let settings = Settings::read(ipam)?;
        Ok(Self {
            node: node_name(ipam)?,
            keys: Keys::new(&settings.prefix),
            settings,
        })
    }
}
