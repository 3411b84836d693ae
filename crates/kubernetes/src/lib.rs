#![doc = include_str!("../README.md")]

mod client;
mod engine;
mod facts;
mod failure;
mod kinds;
mod labels;
mod names;
mod objects;
mod owners;
mod pages;
mod store;
mod whereabouts;

pub use client::Kubernetes;
pub use engine::ENGINE;
pub use facts::FactsOfPod;
pub use kinds::{Address, AddressSpec, Pool, PoolSpec, RangeSpec, manifests};
pub use owners::OwnedState;
pub use whereabouts::Allocation;
