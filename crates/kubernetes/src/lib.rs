#![doc = include_str!("../README.md")]

mod client;
mod cluster_settings;
mod engine;
mod held_index;
mod kubeconfig;
mod names;
pub mod node_objects;
mod objects;
pub mod pool_status;
mod settings;
mod view;
pub mod whereabouts;

pub use client::{
    Client, Created, Deleted, GROUP, Item, List, OtherResource, Replaced, Resource, Target, VERSION,
};
pub use cluster_settings::{Cluster, is_dns_subdomain};
pub use engine::Engine;
pub use settings::Settings;
