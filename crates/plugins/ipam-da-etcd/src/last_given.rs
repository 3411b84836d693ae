//! The node's place in a pool's rotation: the address that it gave last, in a file of
//! `etcd.cacheDir`. It is never needed.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use cluster::Cluster;
use state_files::StateFolder;

/// Age below which somebody else on the node is asking for addresses just now.
const JUST_NOW: Duration = Duration::from_millis(200);

/// The node's places in its rotations.
pub(crate) struct LastGiven {
    folder: Option<StateFolder>,
    prefix: String,
}

/// A place in a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The address that the node gave last.
    pub(crate) last: Option<IpAddr>,
    /// True if it has been given just now.
    pub(crate) is_busy: bool,
}

impl LastGiven {
    pub(crate) fn open(cluster: &Cluster) -> Self {
        let folder = StateFolder::create(&cluster.settings.cache_dir).ok();
        // Other clusters and, in tests, other nodes may have pools of the same name.
        let prefix = cluster.settings.prefix.replace('/', "_");
        Self {
            folder,
            prefix: format!("last{prefix}_{}_", cluster.node),
        }
    }

    fn name(&self, pool: &str, rotation: usize) -> String {
        format!("{}{pool}.{rotation}", self.prefix)
    }

    pub(crate) fn read(&self, pool: &str, rotation: usize) -> Place {
        let folder = self.folder.as_ref();
        let read = folder.and_then(|it| it.read_with_time(&self.name(pool, rotation)).ok());
        let Some((content, time)) = read else {
            return Place::default();
        };
        let text = String::from_utf8_lossy(&content);
        let age = time.map(|time| SystemTime::now().duration_since(time));
        Place {
            last: text.trim().parse().ok(),
            // A time to come says nothing.
            is_busy: matches!(age, Some(Ok(age)) if age < JUST_NOW),
        }
    }

    pub(crate) fn write(&self, pool: &str, rotation: usize, ip: IpAddr) {
        let Some(folder) = &self.folder else {
            return;
        };
        let name = self.name(pool, rotation);
        // Another process that writes isn't waited for: its address is as good.
        let written = folder.with_lock(Duration::ZERO, || {
            folder.replace(&name, ip.to_string().as_bytes())
        });
        if let Err(error) = written {
            tracing::debug!(pool, %error, "the place in the rotation is not remembered");
        }
    }
}
