//! Recorder of plugin calls: a wrapper in front of each plugin, which notes input, output
//! and time taken. The wrapper is this executable, as the hidden `cargo xtask record`.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

/// The folders of the wrappers and of the recorded calls.
pub(crate) struct Recorder {
    plugins: PathBuf,
    calls: PathBuf,
}

/// One call of a plugin.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) plugin: String,
    pub(crate) command: String,
    /// Stdin: the network configuration.
    pub(crate) input: Value,
    /// Stdout: a result, an error, or nothing (`null`).
    pub(crate) output: Value,
    pub(crate) success: bool,
    pub(crate) took: Duration,
}

/// Arguments of `cargo xtask record`.
#[derive(Args)]
pub(crate) struct Record {
    /// The plugin to run.
    plugin: PathBuf,
    /// The folder for what is recorded.
    folder: PathBuf,
}

impl Recorder {
    /// A recorder with two new folders in `root`.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let it = Self {
            plugins: root.join("plugins"),
            calls: root.join("calls"),
        };
        fs::create_dir(&it.plugins)?;
        fs::create_dir(&it.calls)?;
        Ok(it)
    }

    /// The folder of the wrappers, for `CNI_PATH`.
    pub(crate) fn plugins(&self) -> &Path {
        &self.plugins
    }

    /// Puts a wrapper in front of a plugin.
    pub(crate) fn wrap(&self, plugin: &Path) -> Result<()> {
        let name = plugin.file_name().unwrap_or_default();
        let script = format!(
            "#!/bin/sh\nexec '{}' record '{}' '{}'\n",
            env::current_exe()?.display(),
            plugin.display(),
            self.calls.display(),
        );
        let wrapper = self.plugins.join(name);
        fs::write(&wrapper, script)?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// The calls since the last time, in the order in which they began.
    pub(crate) fn take(&self) -> Result<Vec<Recorded>> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.calls)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        // Their names begin with the time.
        files.sort();
        files
            .iter()
            .map(|file| {
                let call: Value = serde_json::from_slice(&fs::read(file)?)?;
                fs::remove_file(file)?;
                Recorded::read(&call).with_context(|| format!("{}", file.display()))
            })
            .collect()
    }
}

impl Recorded {
    fn read(call: &Value) -> Option<Self> {
        let text = |key: &str| call[key].as_str().map(str::to_owned);
        let document = |key: &str| {
            let text = call[key].as_str().unwrap_or_default();
            serde_json::from_str(text).unwrap_or_default()
        };
        Some(Self {
            plugin: text("plugin")?,
            command: text("command")?,
            input: document("input"),
            output: document("output"),
            success: call["success"].as_bool()?,
            took: Duration::from_micros(call["microseconds"].as_u64()?),
        })
    }
}

/// Runs the plugin with this process's environment, stdin and stdout, and records the
/// call.
pub(crate) fn record(arguments: &Record) -> Result<ExitCode> {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let clock = Instant::now();
    let mut child = Command::new(&arguments.plugin)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{}", arguments.plugin.display()))?;
    let mut stdin = child.stdin.take().context("the plugin's stdin")?;
    // A plugin that doesn't read it closes it.
    let _ = stdin.write_all(&input);
    drop(stdin);
    let output = child.wait_with_output()?;
    let took = clock.elapsed();
    let call = json!({
        "plugin": arguments.plugin.file_name().unwrap_or_default().to_string_lossy(),
        "command": env::var("CNI_COMMAND").unwrap_or_default(),
        "input": String::from_utf8_lossy(&input),
        "output": String::from_utf8_lossy(&output.stdout),
        "success": output.status.success(),
        "microseconds": u64::try_from(took.as_micros())?,
    });
    let name = format!("{:020}-{}.json", started.as_nanos(), std::process::id());
    fs::write(arguments.folder.join(name), serde_json::to_vec(&call)?)?;
    io::stdout().write_all(&output.stdout)?;
    Ok(ExitCode::from(u8::from(!output.status.success())))
}
