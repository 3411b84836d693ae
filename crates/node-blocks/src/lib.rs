#![doc = include_str!("../README.md")]

mod answer;
mod local;
mod node;
mod pool;

pub use answer::{add, known, with_pools};
pub use local::{Block, Files, Local, Moment};
pub use node::{Held, Need, Node, low};
pub use pool::{Asked, asked, reserved};

use cni::{About, Attachment, Call, PartialPlugin, Reply};

/// The part of `ipam-ds-etcd` that needs no etcd: ADD while the node's blocks have room, DEL
/// and CHECK. Whatever is the matter with a call, the executable finds and reports it.
pub struct NodeBlocks;

impl PartialPlugin for NodeBlocks {
    fn about(&self) -> About {
        About {
            name: "ipam-ds-etcd",
            ..cni::about!()
        }
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Option<Reply> {
        add(call).ok().flatten()
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Option<Reply> {
        known(call).ok()
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Option<Reply> {
        known(call).ok()
    }
}
