#![doc = include_str!("../README.md")]

mod pools;
mod token;

pub use pools::{Asked, Values, pools};
pub use token::{DiskToken, TokenError, former_names};

use cluster::Cluster;
use cni::{Call, Error};
use etcd::Client;

/// A client of the cluster's etcd for a call.
///
/// # Errors
///
/// Code 7 for a file that can't be used.
pub fn client<'a>(cluster: &'a Cluster, call: &Call<'a>) -> Result<Client<'a>, Error> {
    Ok(Client::new(&cluster.settings, call.cancellation)?)
}
