//! One side of a comparison: a contender with separate state.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::contender::{Contender, Kind};
use super::fill::Fill;
use super::folders::{folder_in, in_memory};
use super::memory;
use super::process::{Plugin, timed};

/// Number of processes of our chain as separate executables.
const PROCESSES: usize = 3;

/// Folder of a side's state, and the number of earlier calls.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// The folder for reservations and records.
    pub(crate) folder: PathBuf,
    /// Number of ADDs and DELs before the measurement.
    pub(crate) used: usize,
}

/// A contender with its folders.
pub(crate) struct Side {
    kind: Kind,
    pub(crate) plugin: Plugin,
    config: Value,
    /// Stdin of CHECK: the configuration with the last result of ADD.
    check: PathBuf,
    /// The last result of ADD.
    result: PathBuf,
    folders: [TempDir; 2],
}

impl Side {
    /// A contender with these addresses reserved.
    pub(crate) fn new(contender: &Contender, storage: &Storage, fill: Fill) -> Result<Self> {
        // The cache and the runtime's files are in memory, not on the disk.
        let (data, memory) = (folder_in(&storage.folder)?, folder_in(&in_memory())?);
        let config = config(contender.kind, fill, data.path(), memory.path());
        let stdin = memory.path().join("config.json");
        fs::write(&stdin, serde_json::to_vec(&config)?)?;
        let side = Self {
            kind: contender.kind,
            plugin: Plugin::new(&contender.executable, &stdin),
            config,
            check: memory.path().join("check.json"),
            result: memory.path().join("result.json"),
            folders: [data, memory],
        };
        fill.write(&side.network())?;
        side.use_up(storage.used)?;
        // Now the rotation continues after the reserved addresses, and files are cached.
        for _ in 0..2 {
            side.plugin.call("ADD", "first")?;
            side.plugin.call("DEL", "first")?;
        }
        Ok(side)
    }

    /// The configuration.
    pub(crate) fn config(&self) -> &Value {
        &self.config
    }

    /// The folder of reservations.
    pub(crate) fn network(&self) -> PathBuf {
        self.folders[0].path().join("networks/bench")
    }

    /// Calls ADD and DEL for this number of containers.
    fn use_up(&self, times: usize) -> Result<()> {
        if self.kind != Kind::Minimum {
            for i in 0..times {
                let container = format!("used-{i}");
                self.call("ADD", &container)?;
                self.call("DEL", &container)?;
            }
        }
        Ok(())
    }

    /// Calls ADD; returns the duration.
    pub(crate) fn add(&self, container: &str) -> Result<Duration> {
        if self.kind == Kind::Minimum {
            return self.call("ADD", container);
        }
        let mut process = self.plugin.command("ADD", container)?;
        process.stdout(File::create(&self.result)?);
        let (time, success) = timed(&mut process)?;
        let result = fs::read(&self.result)?;
        let said = String::from_utf8_lossy(&result);
        ensure!(success, "ADD of {}: {said}", self.kind.key());
        let mut config = self.config.clone();
        config["prevResult"] = serde_json::from_slice(&result).context("the result of ADD")?;
        fs::write(&self.check, serde_json::to_vec(&config)?)?;
        Ok(time)
    }

    /// Calls CHECK for the container that was added last; returns the duration.
    pub(crate) fn check(&self, container: &str) -> Result<Duration> {
        if self.kind == Kind::Minimum {
            return self.call("CHECK", container);
        }
        let plugin = self.plugin.with_config(&self.check);
        let (time, success) = plugin.call("CHECK", container)?;
        ensure!(success, "CHECK of {} failed", self.kind.key());
        Ok(time)
    }

    /// Calls another command; returns the duration.
    pub(crate) fn call(&self, command: &str, container: &str) -> Result<Duration> {
        let processes = if self.kind == Kind::Minimum {
            PROCESSES
        } else {
            1
        };
        let mut all = Duration::ZERO;
        for _ in 0..processes {
            let (time, success) = self.plugin.call(command, container)?;
            ensure!(success, "{command} of {} failed", self.kind.key());
            all += time;
        }
        Ok(all)
    }

    /// Calls GC with every second reservation of `fill` as a valid attachment; returns the
    /// duration.
    pub(crate) fn collect_half(&self, count: usize) -> Result<Duration> {
        let mut config = self.config.clone();
        let valid = (0..count).step_by(2).map(super::fill::holder);
        let valid = valid.map(|id| json!({"containerID": id, "ifname": "eth0"}));
        config["cniVersion"] = json!("1.1.0");
        config["cni.dev/valid-attachments"] = valid.collect();
        fs::write(&self.check, serde_json::to_vec(&config)?)?;
        let (time, success) = self.plugin.with_config(&self.check).call("GC", "-")?;
        ensure!(success, "GC of {} failed", self.kind.key());
        Ok(time)
    }

    /// The peak memory of an ADD's largest process, in KiB.
    pub(crate) fn peak(&self) -> Result<u64> {
        let mut peak = memory::peak(&self.plugin, "peak")?;
        if self.kind == Kind::Separate {
            let mut config = self.config.clone();
            config["prevResult"] = json!({ "pools": [{ "ranges": config["ipam"]["ranges"][0] }] });
            fs::write(&self.check, serde_json::to_vec(&config)?)?;
            let plugin = self.plugin.with_config(&self.check);
            for delegate in super::contender::DELEGATES {
                peak = peak.max(memory::peak(&plugin.beside(delegate), delegate)?);
            }
        }
        Ok(peak)
    }
}

fn config(kind: Kind, fill: Fill, data: &Path, cache: &Path) -> Value {
    let ranges = json!([{ "subnet": fill.subnet() }]);
    let mut config = json!({
        "cniVersion": "1.0.0", "name": "bench", "type": "bridge",
        "ipam": {
            "type": "host-local",
            "routes": [{ "dst": "0.0.0.0/0" }],
            "dataDir": data.join("networks"),
        },
    });
    let ipam = &mut config["ipam"];
    match kind {
        Kind::Allocator => ipam["cacheDir"] = json!(cache.join("cache")),
        _ => ipam["ranges"] = json!([ranges]),
    }
    if kind.is_chain() {
        ipam["type"] = json!(harness::ORCHESTRATOR);
        ipam["delegates"] = json!(super::contender::DELEGATES);
        ipam["cacheDir"] = json!(cache.join("cache"));
        ipam["stateDir"] = json!(data.join("state"));
    }
    if kind == Kind::Allocator {
        config["prevResult"] = json!({ "pools": [{ "ranges": ranges }] });
    }
    config
}
