#![doc = include_str!("../README.md")]

mod definition;
mod holder;
mod keys;
mod node;
mod since;
mod token;

pub use definition::{Asked, Definition, DefinitionError, Values, pools};
pub use holder::{BlockOwner, Holder, NodeToken};
pub use keys::{HeldKey, Keys};
pub use node::node_name;
pub use since::Since;
pub use token::{DiskToken, TokenError, names_of_disk};

use cni::{Call, Error, Object};
use etcd::Client;

/// What the configuration says of the cluster: `ipam.etcd` and `ipam.node`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `ipam.etcd`.
    pub settings: etcd::Settings,
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
        let settings = etcd::Settings::read(ipam)?;
        Ok(Self {
            node: node_name(ipam)?,
            keys: Keys::new(&settings.prefix),
            settings,
        })
    }

    /// A client for a call.
    ///
    /// # Errors
    ///
    /// Code 7 for a file that can't be used.
    pub fn client<'a>(&'a self, call: &Call<'a>) -> Result<Client<'a>, Error> {
        Ok(Client::new(&self.settings, call.cancellation)?)
    }
}
