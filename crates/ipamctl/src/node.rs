//! The networks of one machine, and who holds which of their addresses.

mod attachment;
mod container_id;
mod directory;
mod docker;
mod docker_memory;
mod held_address;
mod held_state;
mod holders;
mod inventory;
mod machine;
mod names;
pub(crate) mod network;
mod pool_usage;
mod pools;
mod selection;
mod unconfigured;

pub(crate) use attachment::{NetworkAttachment, attachments};
pub(crate) use container_id::{after_namespace, is_generated, is_of_a_build};
pub(crate) use directory::Directory;
pub(crate) use docker::{LostSubnet, Standing};
pub(crate) use held_address::HeldAddress;
pub(crate) use held_state::HeldState;
pub(crate) use holders::held_addresses;
pub(crate) use inventory::{Extent, Inventory};
pub(crate) use machine::{Node, known_or_empty};
pub(crate) use names::{Names, short_id};
pub(crate) use network::Network;
pub(crate) use pool_usage::{PoolUsage, Usage, large, pool_usages, slice};
pub(crate) use pools::{PlacedPool, Pools, of_answer, of_ranges};
pub(crate) use selection::{select, select_to_release};
