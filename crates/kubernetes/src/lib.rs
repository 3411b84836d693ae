#![doc = include_str!("../README.md")]

mod client;
mod cluster_settings;
mod engine;
mod held_index;
mod kubeconfig;
mod names;
mod objects;
mod settings;
mod view;

pub use client::{Client, Created, Deleted, GROUP, Item, List, Replaced, Resource, VERSION};
pub use cluster_settings::{Cluster, is_dns_subdomain};
pub use engine::Engine;
pub use settings::Settings;
