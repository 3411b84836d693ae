//! Many concurrent ADDs with executables: ours, and whereabouts on the same etcd and on the same
//! API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harness::kubernetes_programs;
use serde_json::{Value, json};

use super::counters::ETCD;
use super::target::Kubernetes;
use crate::cluster::at_once::range_of;
use crate::cluster::calls::Allocator;
use crate::cluster::crowd::crowd;
use crate::cluster::target::Target;
use crate::folders;
use crate::process::Plugin;
use crate::samples::Samples;
use crate::table::{Table, figure};
use xtask::build::Flavour;

/// Numbers of callers; each makes one ADD.
const CALLERS: [usize; 3] = [1, 20, 128];

/// The executable of whereabouts, in the folder of the API server's executable.
const WHEREABOUTS: &str = "whereabouts-0.5.4";

/// The kinds of whereabouts, as its releases define them.
const KINDS: &str = include_str!("whereabouts-kinds.json");

/// The figures of one program with this number of callers.
pub(super) struct Measured {
    name: &'static str,
    callers: usize,
    total: Duration,
    /// Times of the successful calls.
    each: Samples,
    given: usize,
    /// The message of the first failed call.
    failure: Option<String>,
}

/// A program with a configuration for each node.
struct Contender {
    name: &'static str,
    nodes: Vec<Plugin>,
}

/// The executable of whereabouts, if it is in the folder of the API server's executable.
pub(super) fn whereabouts() -> Option<PathBuf> {
    let path = kubernetes_programs()?.join(WHEREABOUTS);
    path.exists().then_some(path)
}

pub(super) fn measure(target: &Kubernetes, whereabouts: Option<&Path>) -> Result<Vec<Measured>> {
    let folder = folders::folder_in(&folders::in_memory())?;
    let mut contenders = vec![ours(target, folder.path())?];
    match whereabouts {
        Some(path) => contenders.extend(theirs(target, path, folder.path())?),
        None => println!("  {WHEREABOUTS} is not there: it is left out"),
    }
    let mut all = Vec::new();
    for callers in CALLERS {
        for contender in &contenders {
            let measured = one(target, contender, callers)?;
            println!(
                "  {callers} callers, {}: {} ms, {} of {callers} given",
                measured.name,
                measured.total.as_millis(),
                measured.given
            );
            all.push(measured);
        }
    }
    Ok(all)
}

fn one(target: &Kubernetes, contender: &Contender, callers: usize) -> Result<Measured> {
    let (given, failure) = (Mutex::new(Samples::default()), Mutex::new(None));
    let container = |i: usize| format!("peer-{callers}-{i}");
    let call = |command: &str, i: usize| -> Result<()> {
        let plugin = &contender.nodes[i % contender.nodes.len()];
        let mut process = plugin.command(command, &container(i))?;
        let pod = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=bench;K8S_POD_NAME={}",
            container(i)
        );
        process.env("CNI_ARGS", pod);
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let output = process.output().context("a peer can't be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if command != "ADD" {
            return Ok(());
        }
        match output.status.success() {
            true => given
                .lock()
                .expect("no caller panics")
                .push(started.elapsed()),
            false => {
                let said = format!("{}: {}", output.status, said.trim());
                failure
                    .lock()
                    .expect("no caller panics")
                    .get_or_insert(said);
            }
        }
        Ok(())
    };
    // A node's first call after a boot, and the first one with a new pool, lists what is held.
    let reached: &dyn Target = target;
    for i in callers..callers + contender.nodes.len() {
        reached.inside(|| call("ADD", i).and_then(|()| call("DEL", i)))?;
    }
    *given.lock().expect("no caller panics") = Samples::default();
    let done = crowd(target, callers, 1, &|i| call("ADD", i))?;
    // One after the other, because concurrent calls would wait for their lock again.
    for i in 0..callers {
        reached.inside(|| call("DEL", i))?;
    }
    let each = given.into_inner().expect("no caller panics");
    Ok(Measured {
        name: contender.name,
        callers,
        total: done.total,
        given: each.len(),
        each,
        failure: failure.into_inner().expect("no caller panics"),
    })
}

fn ours(target: &Kubernetes, folder: &Path) -> Result<Contender> {
    let name = target.words().allocator;
    let built = Flavour::Normal.build_static(&[name])?.separate;
    let executable = folder.join(name);
    fs::copy(built.join(name), &executable)?;
    target.write_pool("peers", &range_of(92, 4_096))?;
    let allocator = Allocator::new(target)?;
    let node = |node: usize| -> Result<Plugin> {
        let config = allocator.config("peers", node);
        plugin(
            &executable,
            &config,
            &folder.join(format!("ours-{node}.json")),
        )
    };
    let nodes = (0..target.nodes()).map(node).collect::<Result<_>>()?;
    Ok(Contender { name, nodes })
}

/// whereabouts with the API server's etcd, and with the API server.
fn theirs(target: &Kubernetes, executable: &Path, folder: &Path) -> Result<[Contender; 2]> {
    target.api.apply(&serde_json::from_str(KINDS)?);
    let words = ["wait", "--for=condition=Established", "crd", "--all"];
    target.api.kubectl(&words);
    let on_etcd = json!({"datastore": "etcd", "etcd_host": ETCD});
    let kubeconfig = target.api.kubeconfig();
    let on_api = json!({"datastore": "kubernetes", "kubernetes": {"kubeconfig": kubeconfig}});
    let contender = |name: &'static str, file: &str, mut ipam: Value| -> Result<Contender> {
        ipam["type"] = "whereabouts".into();
        ipam["range"] = "10.95.0.0/16".into();
        let config =
            json!({"cniVersion": "0.3.1", "name": "bench", "type": "macvlan", "ipam": ipam});
        let nodes = vec![plugin(executable, &config, &folder.join(file))?];
        Ok(Contender { name, nodes })
    };
    Ok([
        contender("whereabouts on etcd", "etcd.json", on_etcd)?,
        contender("whereabouts on the API server", "api.json", on_api)?,
    ])
}

fn plugin(executable: &Path, config: &Value, file: &Path) -> Result<Plugin> {
    fs::write(file, serde_json::to_vec(config)?)?;
    Ok(Plugin::new(executable, file))
}

impl Measured {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name, "callers": self.callers, "given": self.given,
            "total": self.total.as_secs_f64() * 1e3, "median": self.each.median(),
            "failure": self.failure,
        })
    }
}

/// The figures, with the ratio to ours.
pub(super) fn table(all: &[Measured]) -> Table {
    let mut table = Table::new([
        "executables, all at once, in ms",
        "addresses given",
        "all ADDs",
        "× ours",
        "an ADD: median",
        "p99",
    ]);
    for measured in all {
        let is_ours = |of: &&Measured| of.callers == measured.callers;
        let ours = all
            .iter()
            .find(is_ours)
            .map_or(f64::NAN, |ours| ours.total.as_secs_f64());
        let total = measured.total.as_secs_f64();
        let cells = [
            format!("{} of {}", measured.given, measured.callers),
            figure(total * 1e3, 0),
            figure(total / ours, 1),
            figure(measured.each.median(), 0),
            figure(measured.each.percentile(99), 0),
        ];
        let callers = if measured.callers == 1 {
            "caller"
        } else {
            "callers"
        };
        table.row(
            format!("{} {callers}: {}", measured.callers, measured.name),
            cells,
        );
    }
    table
}
