//! The node's place in a pool's rotation: the address that it gave last, in a file of
//! `cacheDir`. It may be missing: then the rotation starts anywhere.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use state_files::StateFolder;

use crate::Node;

/// Age below which another caller on the node is asking for addresses just now.
const JUST_NOW: Duration = Duration::from_millis(200);

/// The node's places in its rotations.
pub(super) struct RotationPlaces {
    folder: Option<StateFolder>,
    prefix: String,
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
        Self {
            folder: StateFolder::create(&node.cache_dir).ok(),
            prefix: format!("last{}_{}_", node.prefix_in_names(), node.name),
        }
    }

    fn name(&self, pool: &str, rotation: usize) -> String {
        format!("{}{pool}.{rotation}", self.prefix)
    }

    pub(super) fn read(&self, pool: &str, rotation: usize) -> Place {
        let name = self.name(pool, rotation);
        let folder = self.folder.as_ref();
        let Some((content, time)) = folder.and_then(|folder| folder.read_with_time(&name).ok())
        else {
            return Place::default();
        };
        let age = time.map(|time| SystemTime::now().duration_since(time));
        Place {
            last: String::from_utf8_lossy(&content).trim().parse().ok(),
            // A time in the future says nothing.
            is_busy: matches!(age, Some(Ok(age)) if age < JUST_NOW),
        }
    }

    pub(super) fn write(&self, pool: &str, rotation: usize, ip: IpAddr) {
        let Some(folder) = &self.folder else {
            return;
        };
        let (name, text) = (self.name(pool, rotation), ip.to_string());
        // Another process that writes isn't waited for: its address is as good.
        let written = folder.with_lock(Duration::ZERO, || folder.replace(&name, text.as_bytes()));
        if let Err(error) = written {
            tracing::debug!(pool, %error, "the place in the rotation is not written");
        }
    }
}
