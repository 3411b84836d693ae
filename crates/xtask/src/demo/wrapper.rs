//! Stands in `CNI_PATH` as `ipam-delegated`, so that a main plugin executes a watched
//! chain: this executable, as the hidden `cargo xtask run-watched-chain`.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use harness::ORCHESTRATOR;

use super::watched_chain::{ChainCall, WatchedChain};

/// The folder of the wrapper, and the file of the calls that it has made.
pub(crate) struct Wrapper {
    folder: PathBuf,
    calls: PathBuf,
}

/// Arguments of `cargo xtask run-watched-chain`.
#[derive(Args)]
pub struct RunWatchedChain {
    /// The file that the call is appended to, as a line of JSON.
    calls: PathBuf,
}

impl Wrapper {
    /// Writes the wrapper to a new folder in `root`.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let it = Self {
            folder: root.join("plugins"),
            calls: root.join("calls"),
        };
        fs::create_dir(&it.folder)?;
        let script = format!(
            "#!/bin/sh\nexec '{}' run-watched-chain '{}'\n",
            env::current_exe()?.display(),
            it.calls.display(),
        );
        let wrapper = it.folder.join(ORCHESTRATOR);
        fs::write(&wrapper, script)?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
        Ok(it)
    }

    /// The folder of the wrapper, for `CNI_PATH`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The calls since the last time, in order.
    pub(crate) fn take(&self) -> Result<Vec<ChainCall>> {
        let lines = match fs::read_to_string(&self.calls) {
            // The main plugin has not got as far as its IPAM plugin.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        fs::remove_file(&self.calls)?;
        let calls = lines.lines().map(serde_json::from_str);
        Ok(calls.collect::<Result<_, _>>()?)
    }
}

/// Runs the chain with this process's environment and stdin, and appends the call to the
/// file.
pub fn run_watched_chain(arguments: &RunWatchedChain) -> ExitCode {
    let tell = |call| {
        if let Err(error) = append(&arguments.calls, &call) {
            eprintln!("{}: {error:#}", arguments.calls.display());
        }
    };
    plugin::main(&WatchedChain { tell: &tell })
}

fn append(file: &Path, call: &ChainCall) -> Result<()> {
    let mut line = serde_json::to_vec(call)?;
    line.push(b'\n');
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    Ok(file.write_all(&line)?)
}
