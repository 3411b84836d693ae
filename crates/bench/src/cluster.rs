//! Measures the engine of a cluster's pools: ADDs, compared with as many bare writes over as many
//! connections in the same run.

mod at_once;
mod blocks;
mod calls;
mod crowd;
pub(crate) mod etcd;
mod figures;
mod interrupt;
pub(crate) mod kubernetes;
mod one_at_a_time;
mod processes;
mod target;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::Value;

use calls::Allocator;
use figures::Figures;
use target::Target;
use xtask::cargo;

/// Makes all measurements that are common to the engines.
fn measure(target: &dyn Target, progress: &Progress) -> Result<Figures> {
    let allocator = Allocator::new(target)?;
    progress.tell("many at once");
    let at_once = at_once::measure(target, &allocator)?;
    progress.tell("processes");
    let processes = processes::measure(target, &allocator)?;
    progress.tell("one at a time, with ever more addresses reserved");
    let one_at_a_time = one_at_a_time::measure(target, &allocator)?;
    progress.tell("blocks");
    let blocks = blocks::measure(target)?;
    Ok(Figures {
        words: target.words(),
        whose: target.whose(),
        at_once,
        processes,
        one_at_a_time,
        blocks,
    })
}

/// Prints each measurement with the seconds since the start.
struct Progress(Instant);

impl Progress {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn tell(&self, what: &str) {
        println!("{:>4} s: {what} …", self.0.elapsed().as_secs());
    }
}

/// Writes the figures to the folder: `NAME.json` for programs, and `NAME.md` for people.
fn write(out: &Path, name: &str, json: &Value, page: &str, progress: &Progress) -> Result<()> {
    fs::create_dir_all(out)?;
    let [json_file, page_file] = ["json", "md"].map(|ending| out.join(format!("{name}.{ending}")));
    fs::write(&json_file, format!("{json:#}\n"))?;
    fs::write(&page_file, page)?;
    println!(
        "Written: {} and {}. Measured for {} seconds.",
        json_file.display(),
        page_file.display(),
        progress.0.elapsed().as_secs()
    );
    Ok(())
}

/// Runs the same command in a release build, like the plugins.
fn again_in_release() -> Result<()> {
    println!("Building with optimisation …");
    let mut again: Command = cargo::cargo(&["run", "--quiet", "--release", "--package", "bench"]);
    let status = again.arg("--").args(env::args_os().skip(1)).status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
