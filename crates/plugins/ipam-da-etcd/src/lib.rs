#![doc = include_str!("../README.md")]

use cluster::Allocator;

/// The allocator `ipam-da-etcd`: claims an address of each pool in etcd.
pub static PLUGIN: Allocator = Allocator {
    about: cni::about!(),
    engine: &etcd::ENGINE,
};
