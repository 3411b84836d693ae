#![doc = include_str!("../README.md")]

mod disk;
mod identity;
mod pools;
mod restored;

pub use identity::{Identity, take_name};
pub use pools::{Asked, Values, pools};
pub use restored::{LatestState, is_reconciled, read_marks, refuse_marks};

use cluster::Cluster;
use cni::{Call, Error, Object};
use etcd::Client;

/// A client of the cluster's etcd for a call.
///
/// # Errors
///
/// Code 7 for a file that can't be used.
pub fn client<'a>(cluster: &'a Cluster, call: &Call<'a>) -> Result<Client<'a>, Error> {
    Ok(Client::new(&cluster.settings, call.cancellation)?)
}

/// True if the chain has a delegate before this one: its pools may depend on the container, so
/// that STATUS has none.
///
/// # Errors
///
/// Code 7 if `ipam.delegates` is no list of names.
pub fn has_selector(ipam: &Object, plugin: &str) -> Result<bool, Error> {
    let delegates: Option<Vec<String>> = ipam.read("ipam", "delegates")?;
    let first = delegates.unwrap_or_default().into_iter().next();
    Ok(first.is_some_and(|it| it != plugin))
}
