//! Checks a new catalogue and new conflists before they replace working ones.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::config_map::Files;
use crate::folder::{Folder, create_all};
use crate::node::Node;

/// The key of an `ipam` section that names the catalogue.
const POOLS_DIR: &str = "poolsDir";

/// Name of a folder for copies of conflists, which is beside the installed files.
pub(crate) const SCRATCH: &str = ".ipam-installer.new-check";

/// A finding of `ipamctl check --json`.
#[derive(Debug, Deserialize)]
struct Finding {
    key: String,
    severity: String,
    problem: String,
}

/// Checks the conflists `checked`, which are some of `all` that the node will have. `moved` is the
/// folder of a catalogue, and the folder that is read in its place. Copies of the conflists are
/// written into `folder` meanwhile. Warnings go to stderr.
///
/// # Errors
///
/// The errors that the check has found.
pub(crate) fn check(
    node: &Node,
    folder: &Folder,
    all: &Files,
    checked: &Files,
    moved: Option<(&Path, &Path)>,
) -> Result<()> {
    let scratch = &folder.path_of(SCRATCH);
    let mut copies = all.clone();
    if let Some((pools, staged)) = moved {
        for content in copies.values_mut() {
            // Invalid JSON is written as it is: `ipamctl check` reports it.
            if let Ok(mut list) = serde_json::from_slice(content) {
                redirect(&mut list, pools, staged);
                *content = list.to_string().into_bytes();
            }
        }
    }
    write_copies(scratch, &copies)?;
    let mut errors = Vec::new();
    for name in checked.keys() {
        for finding in findings(node, scratch, name)? {
            let Finding {
                key,
                problem,
                severity,
            } = finding;
            // Shows the paths that the files will have.
            let [key, problem] = [key, problem].map(|text| match moved {
                Some((pools, staged)) => in_place(&text, pools, staged),
                None => text,
            });
            let text = match key.is_empty() || problem.starts_with(&key) {
                true => format!("{name}: {problem}"),
                false => format!("{name}: {key}: {problem}"),
            };
            if severity == "error" {
                errors.push(text);
            } else {
                eprintln!("{text}");
            }
        }
    }
    let _ = fs::remove_dir_all(scratch);
    if !errors.is_empty() {
        bail!("{}; what is in use stays as it was", errors.join("; "));
    }
    Ok(())
}

/// Writes these files to a folder.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn write_copies(folder: &Path, files: &Files) -> Result<()> {
    let write = || -> std::io::Result<()> {
        create_all(folder, 0o700)?;
        let mut files = files.iter();
        files.try_for_each(|(name, content)| fs::write(folder.join(name), content))
    };
    write().with_context(|| folder.display().to_string())
}

/// The conflists in a folder; empty if the folder is missing.
///
/// # Errors
///
/// An I/O error, naming the file.
pub(crate) fn in_folder(conflists: &Path) -> Result<Files> {
    let mut files = Files::new();
    let paths = conflist::files(conflists).with_context(|| conflists.display().to_string())?;
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match conflist::read(&path) {
            // The file was removed meanwhile, or is a dangling link.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            content => {
                let content = content.with_context(|| format!("{}", path.display()))?;
                files.insert(name.into_owned(), content);
            }
        }
    }
    Ok(files)
}

/// The conflists whose `poolsDir` is `pools`.
pub(crate) fn readers(conflists: &Files, pools: &Path) -> Files {
    let reads = |content: &[u8]| {
        let list = serde_json::from_slice::<Value>(content);
        list.is_ok_and(|mut list| redirect(&mut list, pools, pools))
    };
    let readers = conflists.iter().filter(|(_, content)| reads(content));
    readers
        .map(|(name, content)| (name.clone(), content.clone()))
        .collect()
}

/// Verifies a single catalogue, as the selector does.
///
/// # Errors
///
/// An invalid catalogue, naming file, rule and key.
pub(crate) fn check_catalogue(pools: &Path, staged: &Path) -> Result<()> {
    let json = serde_json::json!({
        "cniVersion": "1.0.0",
        "name": "catalogue",
        "ipam": {POOLS_DIR: staged},
    });
    let config = cni::NetworkConfig::parse(json.to_string().into_bytes())
        .map_err(|error| anyhow::anyhow!(error.msg))?;
    if let Err(error) = ipam_ds_rules::explain::pools(&config) {
        let problem = in_place(&error.msg, pools, staged);
        bail!("{problem}; what is in use stays as it was");
    }
    Ok(())
}

/// A message with the path that the catalogue will have.
fn in_place(problem: &str, pools: &Path, staged: &Path) -> String {
    let [staged, pools] = [staged, pools].map(|path| path.display().to_string());
    problem.replace(&staged, &pools)
}

/// Makes every `ipam` section with `pools` as its catalogue use `staged`; true if there is one.
fn redirect(list: &mut Value, pools: &Path, staged: &Path) -> bool {
    let mut found = false;
    let plugins = list.get_mut("plugins").and_then(Value::as_array_mut);
    for plugin in plugins.into_iter().flatten() {
        let dir = plugin
            .get_mut("ipam")
            .and_then(|ipam| ipam.get_mut(POOLS_DIR));
        if let Some(dir) = dir
            && dir.as_str().is_some_and(|path| Path::new(path) == pools)
        {
            *dir = staged.display().to_string().into();
            found = true;
        }
    }
    found
}

/// The findings in one of the copies.
fn findings(node: &Node, scratch: &Path, name: &str) -> Result<Vec<Finding>> {
    let tool = &node.image.tool_path;
    let shown = || format!("{} check", tool.display());
    let output = Command::new(tool)
        .arg("--conf-dir")
        .arg(scratch)
        .arg("--cni-path")
        .arg(&node.arguments.plugins)
        // The image may lack the C library of a main plugin, so no plugin is executed.
        .args(["--json", "check", "--no-exec"])
        .arg(scratch.join(name))
        .output()
        .with_context(shown)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}: {}",
        shown(),
        said.trim()
    );
    serde_json::from_slice(&output.stdout).with_context(shown)
}
