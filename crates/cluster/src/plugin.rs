//! The two plugins of an engine: an allocator that reserves addresses one by one, and a selector
//! of the node's blocks.

use std::path::{Path, PathBuf};

use cni::{About, Attachment, Call, Command, Error, Object, Plugin, Reply};

use crate::block::BlockFiles;
use crate::{ConfiguredCluster, Engine, address, block};

/// Reads a plugin's settings.
#[derive(Clone, Copy)]
pub struct Place {
    /// Reads the cluster from the `ipam` section.
    pub cluster: fn(&Object) -> Result<Box<dyn ConfiguredCluster>, Error>,
    /// Reads `ipam.dataDir`: the folder of the reservations of `ipam-da-host-local`.
    pub data_dir: fn(&Object) -> Result<PathBuf, Error>,
}

/// The allocator, which reserves addresses one by one.
pub struct Allocator {
    /// The plugin's name, version and purpose.
    pub about: About,
    /// Reads its settings.
    pub place: Place,
}

/// The selector, which replaces each pool's ranges with those of this node's blocks.
pub struct BlockSelector {
    /// The plugin's name, version and purpose.
    pub about: About,
    /// Reads its settings.
    pub place: Place,
}

impl Place {
    /// Runs `f` with the engine and the cluster of a call.
    fn with<T>(
        &self,
        call: &Call<'_>,
        f: impl FnOnce(&mut dyn Engine, &dyn ConfiguredCluster) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let cluster = (self.cluster)(&call.config.ipam()?)?;
        let mut engine = cluster.engine_of(call);
        f(&mut *engine, &*cluster)
    }

    /// As [`Self::with`], with the folder of the reservations.
    fn with_folder<T>(
        &self,
        call: &Call<'_>,
        f: impl FnOnce(&mut dyn Engine, &dyn ConfiguredCluster, &Path) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let data_dir = (self.data_dir)(&call.config.ipam()?);
        self.with(call, |engine, cluster| f(engine, cluster, &data_dir?))
    }

    /// Gives back this node's empty blocks.
    fn give_back(
        &self,
        engine: &mut dyn Engine,
        cluster: &dyn ConfiguredCluster,
        call: &Call<'_>,
    ) -> Result<(), Error> {
        let data_dir = (self.data_dir)(&call.config.ipam()?)?;
        block::give_back(engine, cluster.node(), &data_dir, call)
    }
}

/// A later GC gives back the blocks that this one could not.
fn warn(given_back: Result<(), Error>) {
    if let Err(error) = given_back {
        tracing::warn!(%error, "no block is given back");
    }
}

impl Plugin for Allocator {
    fn about(&self) -> About {
        self.about
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with(call, |engine, cluster| {
            address::add(engine, cluster.node(), attachment, call).map(Reply::Result)
        })
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with(call, |engine, cluster| {
            address::del(engine, cluster.node(), attachment, call).map(|()| Reply::Nothing)
        })
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with(call, |engine, cluster| {
            address::check(engine, cluster.node(), attachment, call).map(|()| Reply::Nothing)
        })
    }

    /// Also gives back empty blocks of a pool that was given in blocks before. As long as nodes
    /// have blocks, the allocator gives no address of that pool, and the chain may have no
    /// selector of blocks any more.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with(call, |engine, cluster| {
            address::gc(engine, cluster.node(), call)?;
            if BlockFiles::may_exist(cluster.node()) {
                warn(self.place.give_back(engine, cluster, call));
            }
            Ok(Reply::Nothing)
        })
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with(call, |engine, cluster| {
            address::status(engine, cluster.node(), self.about.name, call).map(|()| Reply::Nothing)
        })
    }

    /// On ADD, a signal ends the wait for the engine, and the reservations are undone.
    fn handles_signals(&self, command: Command) -> bool {
        command == Command::Add
    }
}

impl BlockSelector {
    /// `prevResult` with the blocks in the node's files; nothing if there are no files.
    fn known(&self, call: &Call<'_>) -> Reply {
        ipam::pools_or_nothing(self.place.with_folder(call, |engine, cluster, data_dir| {
            block::known_pools(engine, cluster.node(), data_dir, call)
        }))
    }
}

impl Plugin for BlockSelector {
    fn about(&self) -> About {
        self.about
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with_folder(call, |engine, cluster, data_dir| {
            block::add(engine, cluster.node(), data_dir, call).map(Reply::Result)
        })
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(self.known(call))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(self.known(call))
    }

    /// The next allocator needs the pools, whether or not a block was given back.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let place = &self.place;
        warn(place.with(call, |engine, cluster| {
            place.give_back(engine, cluster, call)
        }));
        Ok(self.known(call))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.place.with_folder(call, |engine, cluster, data_dir| {
            block::status(engine, cluster.node(), data_dir, self.about.name, call)
        })?;
        block::without_pools(call).map(Reply::Result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_add_of_the_allocator_is_undone_after_a_signal() {
        let about = About {
            name: "x",
            version: "1",
            summary: "",
        };
        let place = Place {
            cluster: |_| Err(Error::config("none")),
            data_dir: |_| Err(Error::config("none")),
        };
        let allocator = Allocator { about, place };
        assert!(allocator.handles_signals(Command::Add));
        for command in [Command::Del, Command::Check, Command::Gc, Command::Status] {
            assert!(!allocator.handles_signals(command), "{command}");
        }
    }
}
