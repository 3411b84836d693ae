//! `cargo xtask bench ipamctl`: times of its commands on a full /16, and the delay of ADDs while
//! it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};
use harness::TOOL;
use serde_json::{Value, json};

use super::contender;
use super::fill::Fill;
use super::folders::folder_in;
use super::samples::Samples;
use super::side::{Side, Storage};
use super::table::{Table, figure};
use xtask::build::{Flavour, target_dir};

/// Number of calls of each command.
const ROUNDS: usize = 15;

/// Number of concurrent callers, and of ADDs and DELs of each in one round.
const CALLERS: usize = 16;
const CALLS: usize = 12;

/// Rounds of callers, each once with every kind of company.
const COMPANY_ROUNDS: usize = 5;

/// The program that runs beside the callers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    Nothing,
    /// A program that only computes: the cost of a busy processor.
    Computing,
    /// `ipamctl`, one command after the other.
    Tool,
}

const COMPANY: [Company; 3] = [Company::Nothing, Company::Computing, Company::Tool];

/// `ipamctl` and the folder of its conflist.
struct Tool {
    executable: PathBuf,
    folder: tempfile::TempDir,
}

pub(super) fn run(peer: &Path, storage: &Storage) -> Result<()> {
    println!("Building …");
    let installed = folder_in(&target_dir())?;
    let chain = contender::chains(peer, installed.path())?.swap_remove(0);
    let built = Flavour::Normal.build_static(&[TOOL])?.separate.join(TOOL);
    let tool = Tool {
        executable: built,
        folder: tempfile::tempdir()?,
    };
    let full = Side::new(&chain, storage, Fill::Full)?;
    tool.write_conflist(full.config())?;
    let mut table = Table::new(["65,533 reserved, ms", "median", "p90"]);
    for words in [
        &["pools"][..],
        &["map", "bench"],
        &["ls"],
        &["show", "10.10.0.7"],
    ] {
        let mut samples = Samples::default();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            ensure!(tool.command(words).status()?.success(), "{words:?}");
            samples.push(started.elapsed());
        }
        let figures = [samples.median(), samples.percentile(90)];
        table.row(words.join(" "), figures.map(|value| figure(value, 0)));
    }
    println!("\n{table}");
    drop(full);

    let side = Side::new(&chain, storage, Fill::Count(250))?;
    tool.write_conflist(side.config())?;
    let mut all = COMPANY.map(|_| Samples::default());
    for _ in 0..COMPANY_ROUNDS {
        for (company, samples) in COMPANY.into_iter().zip(&mut all) {
            waits(&side, company, &tool, samples)?;
        }
    }
    let mut table = Table::new(["ADD by 16 callers, ms", "median", "p99", "longest"]);
    let names = ["alone", "beside a program that computes", "beside ipamctl"];
    for (name, samples) in names.into_iter().zip(&all) {
        let figures = [
            samples.median(),
            samples.percentile(99),
            samples.percentile(100),
        ];
        table.row(name.to_owned(), figures.map(|value| figure(value, 2)));
    }
    println!("{table}");
    let longest = |at: usize| all[at].percentile(100);
    println!(
        "The longest ADD beside ipamctl takes {:.2} of the one alone, and {:.2} of the one beside a program that computes.",
        longest(2) / longest(0),
        longest(2) / longest(1)
    );
    Ok(())
}

impl Tool {
    fn write_conflist(&self, config: &Value) -> Result<()> {
        let mut plugin = config.clone();
        let list = json!({
            "cniVersion": plugin["cniVersion"].take(),
            "name": plugin["name"].take(),
            "plugins": [plugin],
        });
        fs::write(self.folder.path().join("bench.conflist"), list.to_string())?;
        Ok(())
    }

    /// A call of ipamctl with only this conflist.
    fn command(&self, words: &[&str]) -> Command {
        let nowhere = self.folder.path().join("nowhere");
        let mut command = Command::new(&self.executable);
        command
            .arg("--conf-dir")
            .arg(self.folder.path())
            .arg("--data-dir")
            .arg(&nowhere)
            .arg("--state-dir")
            .arg(&nowhere)
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs one command after the other.
    fn run_until(&self, end: &AtomicBool) -> Result<()> {
        while !end.load(Ordering::Relaxed) {
            for words in [&["ls"][..], &["pools"], &["leaks"]] {
                // leaks exits with 1, since it finds some.
                let status = self.command(words).status()?;
                ensure!(status.code().is_some_and(|code| code < 2), "{words:?}");
            }
        }
        Ok(())
    }
}

/// Measures the ADDs of all callers beside this company.
fn waits(side: &Side, company: Company, tool: &Tool, samples: &mut Samples) -> Result<()> {
    let end = AtomicBool::new(false);
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let beside = scope.spawn(|| match company {
            Company::Nothing => Ok(()),
            Company::Tool => tool.run_until(&end),
            Company::Computing => {
                let mut sum = 0u64;
                while !end.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
                Ok(())
            }
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let times = &times;
                scope.spawn(move || -> Result<()> {
                    for call in 0..CALLS {
                        let container = format!("c{caller}-{call}");
                        let time = side.call("ADD", &container)?;
                        times.lock().expect("nobody panics").push(time);
                        side.call("DEL", &container)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let done: Result<()> = callers
            .into_iter()
            .try_for_each(|caller| caller.join().expect("a caller doesn't panic"));
        end.store(true, Ordering::Relaxed);
        beside.join().expect("it doesn't panic").and(done)
    })?;
    for time in times.into_inner().expect("nobody panics") {
        samples.push(time);
    }
    Ok(())
}
