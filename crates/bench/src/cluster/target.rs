//! The measured engine.

use std::thread;

use anyhow::Result;
use cni::Plugin;
use serde_json::Value;

/// An engine of a cluster's pools, and the nodes that use it.
pub(crate) trait Target: Sync {
    /// The engine's texts in the figures.
    fn words(&self) -> &'static Words;

    /// Description of the cluster in the figures.
    fn whose(&self) -> String;

    /// The allocator.
    fn allocator(&self) -> &dyn Plugin;

    /// Number of nodes in measurements with many callers.
    fn nodes(&self) -> usize;

    /// A node's keys in the `ipam` section: `node`, and the engine's with folders of this node.
    fn ipam(&self, node: &str) -> Result<Value>;

    /// Moves the calling thread into the engine's network namespace.
    fn enter(&self);

    /// Writes a new object of the size of an address, over a new connection.
    fn write_bare(&self, name: &str) -> Result<()>;

    /// Writes a pool with this definition.
    fn write_pool(&self, pool: &str, definition: &Value) -> Result<()>;

    /// Reserves this number of addresses of `10.NET.0.0/16` in this pool, beginning with
    /// `10.NET.0.2`.
    fn fill(&self, pool: &str, net: u8, count: u32) -> Result<()>;

    /// The engine's current counters, in the order of [`Words::costs`]; `None` if they can't be
    /// read.
    fn counters(&self) -> Option<Vec<f64>>;

    /// Stops the engine, so that it doesn't answer; false if it may not be stopped.
    fn stop(&self) -> bool;

    /// Continues it, and waits until it answers.
    fn go_on(&self);
}

impl dyn Target + '_ {
    /// Runs `what` in the engine's network namespace.
    pub(crate) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let entered = scope.spawn(|| {
                self.enter();
                what()
            });
            entered.join().expect("a measurement doesn't panic")
        })
    }

    /// The cost of each of `calls` calls since `before`.
    pub(crate) fn cost_since(&self, before: Option<Vec<f64>>, calls: usize) -> Option<Vec<f64>> {
        let both = before?.into_iter().zip(self.counters()?);
        Some(
            both.map(|(before, now)| (now - before) / calls as f64)
                .collect(),
        )
    }
}

/// Texts of an engine in the figures.
pub(crate) struct Words {
    /// The subcommand of `cargo xtask bench`.
    pub(crate) command: &'static str,
    /// The engine's name in the title of its page.
    pub(crate) engine: &'static str,
    /// The name of a bare write.
    pub(crate) write: &'static str,
    /// The name of the processes that are stopped with SIGSTOP.
    pub(crate) stopped: &'static str,
    pub(crate) allocator: &'static str,
    /// The selector of blocks.
    pub(crate) selector: &'static str,
    /// The longest acceptable time of concurrent ADDs, relative to as many bare writes: for 1,000
    /// callers, and for 128.
    pub(crate) bounds: [f64; 2],
    /// The counters that show the cost of a call.
    pub(crate) costs: &'static [Cost],
}

/// A counter of an engine.
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    /// Digits after the decimal point.
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
