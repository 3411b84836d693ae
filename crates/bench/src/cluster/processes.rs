//! 1,000 concurrent processes of the allocator, and the cost of processes without requests.

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
    /// Total time of all ADDs.
    pub(crate) adds: Samples,
    /// Total time of as many VERSION calls, which need no connection.
    pub(crate) versions: Samples,
    /// ADDs in sequence.
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
    target.write_pool(POOL, &range_of(93, PROCESSES))?;
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
        // A killed process has printed nothing, so its status is shown.
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

/// This process has three open files for each child: the configuration and two pipes. A common
/// limit is 1,024.
fn raise_limit_of_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit can't be raised, a later call reports it.
    let _ = setrlimit(Resource::Nofile, limit);
}
