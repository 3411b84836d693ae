//! The node's place in a pool's rotation: the address that it gave last, in a file of `cacheDir`.
//! Without the file, the rotation starts at a random address, or, if the engine remembers what
//! this node has seen, at an address that depends on the node.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use ipam::{Interval, RangeSet};

use super::candidates::address_at;
use crate::Node;
use crate::node::cache_files::CacheFiles;

/// If the last address was given more recently than this, another caller on the node is requesting
/// addresses.
const JUST_NOW: Duration = Duration::from_millis(200);

/// The node's rotation places.
pub(super) struct RotationPlaces {
    files: CacheFiles,
    node: String,
}

/// A place in a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The address that the node gave last.
    pub(super) last: Option<IpAddr>,
    /// True if it was given just now.
    pub(super) is_busy: bool,
}

impl RotationPlaces {
    pub(super) fn open(node: &Node) -> Self {
        let prefix = format!("last{}_{}_", node.prefix_in_names(), node.name);
        Self {
            files: CacheFiles::open(node, prefix),
            node: node.name.clone(),
        }
    }

    /// The address of a pool at which this node begins. It differs between nodes.
    pub(super) fn first(&self, pool: &str, ranges: &RangeSet) -> Option<IpAddr> {
        let mut hasher = DefaultHasher::new();
        (&self.node, pool).hash(&mut hasher);
        let given: Vec<Interval> = ranges.given().collect();
        address_at(
            &given,
            u128::from(hasher.finish()) % ranges.capacity().max(1),
        )
    }

    pub(super) fn read(&self, pool: &str, rotation: usize) -> Place {
        let Some((content, time)) = self.files.read(&format!("{pool}.{rotation}")) else {
            return Place::default();
        };
        let age = time.map(|time| SystemTime::now().duration_since(time));
        Place {
            last: String::from_utf8_lossy(&content).trim().parse().ok(),
            // A time in the future is ignored.
            is_busy: matches!(age, Some(Ok(age)) if age < JUST_NOW),
        }
    }

    pub(super) fn write(&self, pool: &str, rotation: usize, ip: IpAddr) {
        let text = ip.to_string();
        self.files
            .write(&format!("{pool}.{rotation}"), text.as_bytes());
    }
}
