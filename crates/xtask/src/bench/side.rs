//! A contender at work, with a state of its own.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::contender::{Contender, Kind};
use super::folders::{folder_in, in_memory};
use super::memory;
use super::process::{Plugin, timed};

/// How many processes our chain is.
const LINKS: usize = 3;

/// A contender with its folders.
pub(crate) struct Side {
    kind: Kind,
    pub(crate) plugin: Plugin,
    config: Value,
    /// The configuration that CHECK gets: with the answer to ADD.
    check: PathBuf,
    /// The last answer to ADD.
    answer: PathBuf,
    _folders: [TempDir; 2],
}

impl Side {
    /// One that keeps its state there, with so many addresses reserved already.
    pub(crate) fn new(contender: &Contender, data: &Path, reserved: u32) -> Result<Self> {
        let (data, cache) = (folder_in(data)?, folder_in(&in_memory())?);
        reserve(&data.path().join("networks/bench"), reserved)?;
        let config = config(contender.kind, data.path(), cache.path());
        let stdin = data.path().join("config.json");
        fs::write(&stdin, serde_json::to_vec(&config)?)?;
        let it = Self {
            kind: contender.kind,
            plugin: Plugin::new(&contender.executable, &stdin),
            config,
            check: data.path().join("check.json"),
            // Not on the disk that is measured.
            answer: cache.path().join("answer.json"),
            _folders: [data, cache],
        };
        // The rotation goes on behind what is reserved, and files are cached.
        for _ in 0..2 {
            it.add("first")?;
            it.call("DEL", "first")?;
        }
        Ok(it)
    }

    /// Calls it with ADD; returns how long that took.
    pub(crate) fn add(&self, container: &str) -> Result<Duration> {
        if self.kind == Kind::Minimum {
            return self.call("ADD", container);
        }
        let mut process = self.plugin.command("ADD", container)?;
        process.stdout(File::create(&self.answer)?);
        let (time, success) = timed(&mut process)?;
        let answer = fs::read(&self.answer)?;
        let said = String::from_utf8_lossy(&answer);
        ensure!(success, "ADD of {}: {said}", self.kind.key());
        let mut config = self.config.clone();
        config["prevResult"] = serde_json::from_slice(&answer).context("the answer to ADD")?;
        fs::write(&self.check, serde_json::to_vec(&config)?)?;
        Ok(time)
    }

    /// Calls it with CHECK for what was added last; returns how long that took.
    pub(crate) fn check(&self, container: &str) -> Result<Duration> {
        if self.kind == Kind::Minimum {
            return self.call("CHECK", container);
        }
        let plugin = self.plugin.with_config(&self.check);
        let (time, success) = plugin.call("CHECK", container)?;
        ensure!(success, "CHECK of {} failed", self.kind.key());
        Ok(time)
    }

    /// The most memory that one of its processes takes in an ADD, in KiB.
    pub(crate) fn peak(&self) -> Result<u64> {
        let mut peak = memory::peak(&self.plugin, "peak")?;
        if self.kind == Kind::Separate {
            let mut config = self.config.clone();
            config["prevResult"] = json!({ "pools": [{ "ranges": config["ipam"]["ranges"][0] }] });
            fs::write(&self.check, serde_json::to_vec(&config)?)?;
            let alone = self.plugin.with_config(&self.check);
            for delegate in ["ipam-ds-ranges", "ipam-da-host-local"] {
                peak = peak.max(memory::peak(&alone.beside(delegate), delegate)?);
            }
        }
        Ok(peak)
    }

    /// Calls it with another command; returns how long that took.
    pub(crate) fn call(&self, command: &str, container: &str) -> Result<Duration> {
        let processes = if self.kind == Kind::Minimum { LINKS } else { 1 };
        let mut all = Duration::ZERO;
        for _ in 0..processes {
            let (time, success) = self.plugin.call(command, container)?;
            ensure!(success, "{command} of {} failed", self.kind.key());
            all += time;
        }
        Ok(all)
    }
}

/// Reserves the first addresses, as host-local writes it.
fn reserve(network: &Path, count: u32) -> Result<()> {
    fs::create_dir_all(network)?;
    let first = u32::from(Ipv4Addr::new(10, 10, 0, 2));
    for i in 0..count {
        let ip = Ipv4Addr::from(first + i).to_string();
        fs::write(network.join(ip), format!("{i:064x}\r\neth0"))?;
    }
    Ok(())
}

fn config(kind: Kind, data: &Path, cache: &Path) -> Value {
    let mut ipam = json!({
        "type": "host-local",
        "ranges": [[{ "subnet": "10.10.0.0/16" }]],
        "routes": [{ "dst": "0.0.0.0/0" }],
        "dataDir": data.join("networks"),
    });
    if kind.is_ours() {
        ipam["type"] = json!("ipam-delegated");
        ipam["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local"]);
        ipam["cacheDir"] = json!(cache);
        ipam["stateDir"] = json!(data.join("state"));
    }
    json!({ "cniVersion": "1.0.0", "name": "bench", "type": "bridge", "ipam": ipam })
}
