//! `cargo xtask bench selectors`: the cost of large catalogues, of exclusions and of sticky keys,
//! each compared with the smallest chain of its kind in the same run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::ORCHESTRATOR;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::contender;
use super::folders::{folder_in, in_memory};
use super::process::{Plugin, timed};
use super::samples::Samples;
use super::table::{Table, figure};
use xtask::build::target_dir;

const ROUNDS: usize = 301;

/// Numbers of pools and rules in the large catalogues.
const POOLS: usize = 1_000;
const RULES: usize = 5_000;

/// Number of excluded intervals.
const EXCLUDED: u32 = 5_000;

/// A measured chain.
struct Case {
    name: &'static str,
    plugin: Plugin,
    add: Samples,
    folders: [TempDir; 2],
}

impl Case {
    /// A chain with further keys of `ipam`, and with this catalogue in its `poolsDir`.
    fn new(
        name: &'static str,
        executable: &Path,
        selector: &str,
        mut ipam: Value,
        catalogue: Option<&Value>,
    ) -> Result<Self> {
        let (data, folder) = (folder_in(&in_memory())?, folder_in(&in_memory())?);
        ipam["type"] = json!(ORCHESTRATOR);
        ipam["delegates"] = json!([selector, "ipam-da-host-local"]);
        ipam["dataDir"] = json!(data.path().join("networks"));
        ipam["cacheDir"] = json!(data.path().join("cache"));
        ipam["stateDir"] = json!(data.path().join("state"));
        if let Some(catalogue) = catalogue {
            let pools = folder.path().join("ipam.d");
            fs::create_dir(&pools)?;
            fs::write(pools.join("catalogue.json"), catalogue.to_string())?;
            ipam["poolsDir"] = json!(pools);
        }
        let config =
            json!({"cniVersion": "1.0.0", "name": "bench", "type": "bridge", "ipam": ipam});
        let stdin = folder.path().join("config.json");
        fs::write(&stdin, config.to_string())?;
        Ok(Self {
            name,
            plugin: Plugin::new(executable, &stdin),
            add: Samples::default(),
            folders: [data, folder],
        })
    }

    fn call(&self, command: &str, container: &str) -> Result<Duration> {
        let mut process = self.plugin.command(command, container)?;
        process.env(
            "CNI_ARGS",
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns-{}-x", RULES - 1),
        );
        let (time, success) = timed(&mut process)?;
        ensure!(success, "{command} of {}", self.name);
        Ok(time)
    }
}

pub(crate) fn run() -> Result<()> {
    println!("Building …");
    let installed = folder_in(&target_dir())?;
    let folder = contender::one_file(installed.path())?;
    let executable = folder.join(ORCHESTRATOR);
    let mut cases = cases(&executable)?;
    for case in &cases {
        case.call("ADD", "first")?;
        case.call("DEL", "first")?;
    }
    // Recent files aren't cached, because they may be changed within the same tick of the clock.
    std::thread::sleep(Duration::from_secs(3));
    println!("Measuring: {ROUNDS} rounds, all in turn …");
    for round in 0..ROUNDS {
        let count = cases.len();
        for i in 0..count {
            let case = &mut cases[(i + round) % count];
            let container = format!("c-{round}");
            let time = case.call("ADD", &container)?;
            case.add.push(time);
            case.call("DEL", &container)?;
        }
    }
    let mut table = Table::new([
        "ADD; medians in ms",
        "ADD",
        "more than the first of its kind",
    ]);
    let mut first = f64::NAN;
    for case in &cases {
        let median = case.add.median();
        if case.name.starts_with(FIRST) {
            first = median;
        }
        table.row(
            case.name.to_owned(),
            [figure(median, 2), figure(median - first, 2)],
        );
    }
    println!("\n{table}");
    Ok(())
}

/// Prefix of the name of a case to which others are compared.
const FIRST: &str = "one ";

fn cases(executable: &Path) -> Result<Vec<Case>> {
    let rules = |name, catalogue: &Value| {
        Case::new(
            name,
            executable,
            "ipam-ds-rules",
            json!({}),
            Some(catalogue),
        )
    };
    let in_conflist =
        |name, catalogue: Value| Case::new(name, executable, "ipam-ds-rules", catalogue, None);
    let exclude: Vec<String> = (0..EXCLUDED)
        .map(|i| std::net::Ipv4Addr::from(0x0a01_1000 + 4 * i).to_string())
        .collect();
    let ranges = |name, exclude: &[String]| {
        let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/16", "exclude": exclude}]]});
        Case::new(name, executable, "ipam-ds-ranges", ranges, None)
    };
    let sticky = rules(
        "1 pool, 1 rule with a sticky key, 65,533 others remembered",
        &sticky(),
    )?;
    remember_many(&sticky)?;
    Ok(vec![
        rules("one pool, one rule, in poolsDir", &catalogue(1, "ns-*"))?,
        in_conflist("1 pool, 1 rule, in the conflist", catalogue(1, "ns-*"))?,
        rules(
            "1,000 pools, 5,000 rules, in poolsDir",
            &catalogue(RULES, "ns-{}-x"),
        )?,
        rules(
            "1,000 pools, 5,000 rules with wildcards, in poolsDir",
            &catalogue(RULES, "ns-{}-*"),
        )?,
        in_conflist(
            "1,000 pools, 5,000 rules, in the conflist",
            catalogue(RULES, "ns-{}-x"),
        )?,
        sticky,
        ranges("one range, nothing excluded", &[])?,
        ranges("1 range, 5,000 intervals excluded", &exclude)?,
    ])
}

/// A catalogue with this number of rules; the last one holds.
fn catalogue(rules: usize, condition: &str) -> Value {
    let pools: Value = (0..rules.min(POOLS))
        .map(|i| {
            let subnet = format!("10.{}.{}.0/24", 16 + i / 256, i % 256);
            (format!("pool-{i}"), json!({"subnet": subnet}))
        })
        .collect();
    let rules: Value = (0..rules)
        .map(|i| {
            let condition = condition.replace("{}", &i.to_string());
            let pool = format!("pool-{}", i % POOLS);
            json!({"when": {"K8S_POD_NAMESPACE": condition}, "pools": [pool]})
        })
        .collect();
    json!({"pools": pools, "rules": rules})
}

fn sticky() -> Value {
    json!({
        "pools": {"pool": {"subnet": "10.1.0.0/16"}},
        "rules": [{"pools": ["pool"], "sticky": "${K8S_POD_NAMESPACE}/${containerID}"}],
    })
}

/// Fills the pool's file of sticky keys.
fn remember_many(case: &Case) -> Result<()> {
    case.call("ADD", "first")?;
    let [data, _] = &case.folders;
    let file = data.path().join("networks/pool/sticky_keys");
    let mut lines = String::new();
    for i in 2..65_535 {
        let ip = std::net::Ipv4Addr::from(0x0a01_0000 + i);
        writeln!(lines, "{ip} \"namespace/some-pod-{i}\"")?;
    }
    fs::write(&file, lines)?;
    case.call("DEL", "first")?;
    Ok(())
}
