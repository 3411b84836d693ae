//! Refuses a removal while the node has reservations or records: without the plugins, nothing
//! could release them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::node::Node;
use crate::verify;

/// The IPAM plugin of this project's networks.
const CHAIN: &str = "ipam-delegated";

/// Most attachments that a message names.
const MOST_NAMED: usize = 10;

/// A row of `ipamctl ls --json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    address: Option<String>,
    network: Option<String>,
    pool: Option<String>,
    #[serde(rename = "containerID")]
    container: Option<String>,
    record: Option<String>,
}

/// Refuses while this project's networks have reservations or records, unless `--even-in-use` is
/// given. `conflists` is a folder with the node's conflists, which name the folders of these.
///
/// # Errors
///
/// There are some, which the error names; or they can't be read.
pub(crate) fn refuse(node: &Node, conflists: &Path) -> Result<()> {
    let (arguments, tool) = (&node.arguments, &node.image.tool_path);
    if arguments.even_in_use {
        return Ok(());
    }
    let shown = || format!("{} ls", tool.display());
    let output = Command::new(tool)
        .arg("--conf-dir")
        .arg(conflists)
        .arg("--data-dir")
        .arg(&arguments.data_dir)
        .arg("--state-dir")
        .arg(&arguments.state_dir)
        .args(["--json", "ls"])
        .output()
        .with_context(shown)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: not everything can be read, so nothing is removed: {}",
        shown(),
        said.trim()
    );
    let rows: Vec<Row> = serde_json::from_slice(&output.stdout).with_context(shown)?;
    let others = networks_of_others(conflists)?;
    let ours = rows.iter().filter(|row| {
        let network = row.network.as_deref().unwrap_or_default();
        row.record.is_some() || !others.contains(network)
    });
    let named: Vec<String> = ours.map(text).collect();
    if named.is_empty() {
        return Ok(());
    }
    let more = match named.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    bail!(
        "nothing is removed: without the plugins, nobody could release {}{more}. Drain the node, or say \
         --even-in-use",
        named[..named.len().min(MOST_NAMED)].join(", ")
    )
}

fn text(row: &Row) -> String {
    let unknown = || "?".to_owned();
    let address = row.address.clone();
    let what = address
        .or_else(|| row.record.clone())
        .unwrap_or_else(unknown);
    let network = row.network.clone().or_else(|| row.pool.clone());
    let network = network.unwrap_or_else(unknown);
    let container = row.container.clone().unwrap_or_else(unknown);
    format!("{what} of {container} on {network}")
}

/// The networks whose conflist names another IPAM plugin, and not this project's.
///
/// # Errors
///
/// An I/O error: an unreadable file may be one of this project's.
fn networks_of_others(conflists: &Path) -> Result<BTreeSet<String>> {
    let files = verify::in_folder(conflists)?.into_values();
    let lists = files.filter_map(|content| serde_json::from_slice::<Value>(&content).ok());
    let mut others = BTreeSet::new();
    let mut ours = BTreeSet::new();
    for list in lists {
        let Some(name) = list["name"].as_str() else {
            continue;
        };
        let text = list.to_string();
        // The name may be in a nested configuration, such as Multus'.
        if text.contains(&format!("\"{CHAIN}\"")) {
            ours.insert(name.to_owned());
        } else if text.contains("\"ipam\"") {
            others.insert(name.to_owned());
        }
    }
    others.retain(|name| !ours.contains(name));
    Ok(others)
}
