#![doc = include_str!("../README.md")]

use cluster::Allocator;

/// The allocator `ipam-da-kubernetes`: claims an address of each pool in Kubernetes' API.
pub static PLUGIN: Allocator = Allocator {
    about: cni::about!(),
    engine: kubernetes::ENGINE,
};
