#![doc = include_str!("../README.md")]

use cluster::plugin::{Allocator, Place};
use ipam_da_host_local::Folders;
use kubernetes::Cluster;

/// The plugin.
pub static PLUGIN: Allocator = Allocator {
    about: cni::about!(),
    place: Place {
        cluster: |ipam| Ok(Box::new(Cluster::read(ipam)?)),
        data_dir: |ipam| Ok(Folders::read(ipam)?.data_dir),
    },
};
