#![doc = include_str!("../README.md")]

use cluster::Allocator;

/// The plugin.
pub static PLUGIN: Allocator = Allocator {
    about: cni::about!(),
    engine: kubernetes::ENGINE,
};
