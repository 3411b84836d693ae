//! One side of a comparison: a contender with separate state.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::contender::Contender;
use crate::fill::Fill;
use crate::folders::{folder_in, in_memory};
use crate::plugin::{Plugin, succeeds, timed};

/// A contender with its folders.
pub(crate) struct Side {
    plugin: Plugin,
    _runtime: TempDir,
    _data: TempDir,
}

impl Side {
    /// A contender with these addresses reserved; its state is in a folder of `data`.
    pub(crate) fn new(contender: &Contender, data: &Path, fill: Fill) -> Result<Self> {
        let (data, runtime) = (folder_in(data)?, folder_in(&in_memory())?);
        let mut ipam = contender.ipam.clone();
        ipam["dataDir"] = json!(data.path().join("networks"));
        ipam["stateDir"] = json!(data.path().join("state"));
        let config =
            json!({"cniVersion": "1.0.0", "name": "bench", "type": "bridge", "ipam": ipam});
        fill.write(&data.path().join("networks/bench"))?;
        let stdin = runtime.path().join("config.json");
        let side = Self {
            plugin: Plugin::new(&contender.executable, &stdin, &config)?,
            _runtime: runtime,
            _data: data,
        };
        // Now the rotation continues after the reserved addresses, and files are cached.
        for command in ["ADD", "DEL"].repeat(2) {
            timed(&mut side.plugin.command(command, "first")?)?;
        }
        Ok(side)
    }

    /// Calls a command that must succeed; returns its time.
    pub(crate) fn call(&self, command: &str, container: &str) -> Result<Duration> {
        succeeds(&mut self.plugin.command(command, container)?)
    }

    /// Calls ADD, which must be refused; returns its time.
    pub(crate) fn refused_add(&self, container: &str) -> Result<Duration> {
        let (time, success) = timed(&mut self.plugin.command("ADD", container)?)?;
        ensure!(!success, "an ADD was given an address of a full pool");
        Ok(time)
    }

    /// Times of ADD and DEL.
    pub(crate) fn round(&self, container: &str) -> Result<[Duration; 2]> {
        Ok([self.call("ADD", container)?, self.call("DEL", container)?])
    }
}
