//! 1,000 processes of the allocator at once, and what processes cost without any request.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::at_once::range_of;
use super::calls::Allocator;
use super::crowd::crowd;
use super::target::Target;
use crate::folders;
use crate::process::Plugin;
use crate::samples::Samples;
use xtask::build::Flavour;

const PROCESSES: usize = 1_000;
const ROUNDS: usize = 2;
const POOL: &str = "processes";

/// The processes' figures.
pub(crate) struct Processes {
    /// Time of all of them.
    pub(crate) adds: Samples,
    /// The same of VERSION, which each answers without a connection.
    pub(crate) versions: Samples,
    /// One ADD after the other.
    pub(crate) single_add: Samples,
    /// The executable's size in bytes.
    pub(crate) size: u64,
}

pub(crate) fn measure(target: &dyn Target, allocator: &Allocator<'_>) -> Result<Processes> {
    raise_limit_of_files();
    let allocator_name = target.words().allocator;
    let built = Flavour::Normal.build_static(&[allocator_name])?.separate;
    let folder = folders::folder_in(&folders::in_memory())?;
    let executable = folder.path().join(allocator_name);
    fs::copy(built.join(allocator_name), &executable)?;
    let config = folder.path().join("config.json");
    fs::write(&config, serde_json::to_vec(&allocator.config(POOL, 0))?)?;
    let plugin = Plugin::new(&executable, &config);
    target.write_pool(POOL, &range_of(PROCESSES))?;
    let mut processes = Processes {
        adds: Samples::default(),
        versions: Samples::default(),
        single_add: Samples::default(),
        size: fs::metadata(&executable)?.len(),
    };
    let call = |command: &str, container: &str| -> Result<()> {
        let mut process = plugin.command(command, container)?;
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = process
            .output()
            .with_context(|| format!("{command} of {container} can't be started"))?;
        // One that was killed has said nothing: its status tells.
        ensure!(
            output.status.success(),
            "{command} of {container}: {}: {} {}",
            output.status,
            String::from_utf8_lossy(&output.stdout).trim(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    };
    for round in 0..ROUNDS {
        let container = |i: usize| format!("process-{round}-{i}");
        let version = |i: usize| call("VERSION", &container(i));
        processes
            .versions
            .push(crowd(target, PROCESSES, 1, &version)?.total);
        let add = |i: usize| call("ADD", &container(i));
        processes
            .adds
            .push(crowd(target, PROCESSES, 1, &add)?.total);
        let del = |i: usize| allocator.del(POOL, 0, &container(i));
        crowd(target, 20, PROCESSES / 20, &del)?;
    }
    target.inside(|| {
        for i in 0..101 {
            let container = format!("single-{i}");
            let (time, success) = plugin.call("ADD", &container)?;
            ensure!(success, "ADD of {container} failed");
            processes.single_add.push(time);
            call("DEL", &container)?;
        }
        Ok(processes)
    })
}

/// Each process has its configuration and two pipes here, and 1,024 open files are a common
/// limit.
fn raise_limit_of_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it can't be raised, the call that meets it says so.
    let _ = setrlimit(Resource::Nofile, limit);
}
