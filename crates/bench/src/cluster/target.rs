//! The engine that is measured.

use std::thread;

use anyhow::Result;
use cni::Plugin;
use serde_json::Value;

/// An engine of a cluster's pools, and the nodes that use it.
pub(crate) trait Target: Sync {
    /// Its words in the figures.
    fn words(&self) -> &'static Words;

    /// Description of the cluster in the figures.
    fn whose(&self) -> String;

    /// The allocator.
    fn allocator(&self) -> &dyn Plugin;

    /// Number of nodes that ask for addresses when many ask at once.
    fn nodes(&self) -> usize;

    /// The keys of a node in the `ipam` section: the engine's, with folders of this node, and
    /// `node`.
    fn ipam(&self, node: &str) -> Result<Value>;

    /// Moves the calling thread to where the engine can be reached.
    fn enter(&self);

    /// Writes a new object that is as large as an address, over a new connection.
    fn write_bare(&self, name: &str) -> Result<()>;

    /// Writes a pool with this definition.
    fn write_pool(&self, pool: &str, definition: &Value) -> Result<()>;

    /// Reserves so many addresses of 10.98.0.0/16 in this pool, from 10.98.0.2 on.
    fn fill(&self, pool: &str, count: u32) -> Result<()>;

    /// The engine's counters now, in the order of [`Words::costs`]; `None` if they can't be read.
    fn counters(&self) -> Option<Vec<f64>>;

    /// Stops the engine, so that it answers nothing; false if it is somebody's.
    fn stop(&self) -> bool;

    /// Continues it, and waits until it answers.
    fn go_on(&self);
}

impl dyn Target + '_ {
    /// Does something where the engine can be reached.
    pub(crate) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                self.enter();
                what()
            });
            entered.join().expect("a measurement doesn't panic")
        })
    }

    /// What each of so many calls has cost since these counters.
    pub(crate) fn cost_since(&self, before: Option<Vec<f64>>, calls: usize) -> Option<Vec<f64>> {
        let both = before?.into_iter().zip(self.counters()?);
        Some(
            both.map(|(before, now)| (now - before) / calls as f64)
                .collect(),
        )
    }
}

/// What the figures of an engine say.
pub(crate) struct Words {
    /// The subcommand of `cargo xtask bench`.
    pub(crate) command: &'static str,
    /// The engine, in the title of its page.
    pub(crate) engine: &'static str,
    /// A bare write.
    pub(crate) write: &'static str,
    /// What is stopped with SIGSTOP.
    pub(crate) stopped: &'static str,
    pub(crate) allocator: &'static str,
    /// The selector of blocks.
    pub(crate) selector: &'static str,
    /// The most that many ADDs at once may take of the time of as many bare writes: for 1,000
    /// callers, and for 128.
    pub(crate) bounds: [f64; 2],
    /// The counters that tell what a call costs.
    pub(crate) costs: &'static [Cost],
}

/// A counter of an engine.
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    /// Digits behind the point in the figures.
    pub(crate) digits: usize,
}

impl Cost {
    /// A number of requests.
    pub(crate) const fn requests(name: &'static str) -> Self {
        Self { name, digits: 2 }
    }

    /// A number of bytes.
    pub(crate) const fn bytes(name: &'static str) -> Self {
        Self { name, digits: 0 }
    }
}
