//! `cargo xtask demo`: two containers from ADD to GC, with the README's configuration.

mod drawing;
mod recorder;
mod tools;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::{Call, ORCHESTRATOR, PLUGINS, REFERENCE_PLUGINS, answer_of, repository};
use serde_json::{Value, json};

use crate::build::{BUILT_PLUGINS, Flavour};
use drawing::{Step, draw};
use recorder::{Recorded, Recorder};
use tools::Tools;

pub(crate) use recorder::{Record, record};

const CONFLIST: &str = "testdata/mynet.conflist";

pub(crate) fn run() -> Result<()> {
    let built = match env::var_os(BUILT_PLUGINS) {
        Some(folder) => PathBuf::from(folder),
        None => {
            println!("Building the plugins, as debug builds …");
            Flavour::Normal.build("dev")?.separate
        }
    };
    let root = tempfile::Builder::new()
        .prefix("ipam-delegated-demo-")
        .tempdir()?;
    let recorder = Recorder::new(root.path())?;
    for plugin in PLUGINS {
        recorder.wrap(&built.join(plugin))?;
    }
    let runtime = Runtime {
        config: config(root.path())?,
        root: root.path().to_owned(),
        tools: Tools::find(),
        recorder,
    };
    runtime.story()
}

/// The configuration of the conflist's plugin as a runtime hands it on, with all state
/// below `root`.
fn config(root: &Path) -> Result<Value> {
    let conflist = fs::read_to_string(repository().join(CONFLIST)).context(CONFLIST)?;
    println!("The configuration, {CONFLIST}:\n\n{conflist}");
    let conflist: Value = serde_json::from_str(&conflist)?;
    let mut config = conflist["plugins"][0].clone();
    config["cniVersion"] = conflist["cniVersion"].clone();
    config["name"] = conflist["name"].clone();
    for (key, folder) in [
        ("dataDir", "networks"),
        ("cacheDir", "cache"),
        ("stateDir", "state"),
    ] {
        config["ipam"][key] = json!(root.join(folder));
    }
    Ok(config)
}

/// The runtime of the demo: it calls the main plugin, or `ipam-delegated` without one.
struct Runtime {
    config: Value,
    root: PathBuf,
    tools: Tools,
    recorder: Recorder,
}

impl Runtime {
    fn story(&self) -> Result<()> {
        heading("ADD: container c1 gets an address of each family");
        let c1 = self.add("c1")?;
        heading("ADD: container c2 gets the next ones");
        let c2 = self.add("c2")?;
        self.ping(&answer_of(&c2));
        heading("CHECK: c1 still has what it was given");
        self.call("CHECK", "c1", &[("prevResult", c1.clone())])?;
        heading("The files of host-local's format that hold the reservations");
        self.show_files()?;
        heading("DEL: c1 gives its addresses back");
        self.call("DEL", "c1", &[("prevResult", c1)])?;
        println!();
        self.show_files()?;
        heading("GC: the runtime has lost c2, and lists no valid attachment");
        self.gc()?;
        println!();
        self.show_files()?;
        println!("\nAll as it should be.");
        Ok(())
    }

    fn add(&self, container: &str) -> Result<Value> {
        let result = self.call("ADD", container, &[])?;
        serde_json::from_str(&result).context("the result of ADD")
    }

    /// Pings the second container from the first one, if that can be done.
    fn ping(&self, ips: &[String]) {
        let Some(node) = self.tools.node.as_ref().filter(|_| self.tools.ping) else {
            return;
        };
        heading("The containers reach each other");
        for ip in ips {
            let said = node.sh(&format!("ip netns exec c1 ping -c 1 -W 5 {ip}"));
            println!("{}", said.lines().nth(1).unwrap_or_default());
        }
    }

    /// Calls the main plugin, with these keys added to its configuration.
    fn call(&self, command: &str, container: &str, keys: &[(&str, Value)]) -> Result<String> {
        let mut config = self.config.clone();
        for (key, value) in keys {
            config[key] = value.clone();
        }
        let main = match &self.tools.node {
            Some(_) => Path::new(REFERENCE_PLUGINS).join("bridge"),
            None => self.recorder.plugins().join(ORCHESTRATOR),
        };
        println!(
            "$ CNI_COMMAND={command} CNI_CONTAINERID={container} CNI_NETNS=/run/netns/{container} \
             CNI_IFNAME=eth0 {}\n",
            main.file_name().unwrap_or_default().display()
        );
        let call = Call::new(main)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", format!("/run/netns/{container}"))
            .env("CNI_IFNAME", "eth0");
        self.finish(call, &config, container)
    }

    /// Calls GC of `ipam-delegated`: Debian's `bridge` doesn't hand it on.
    fn gc(&self) -> Result<()> {
        let mut config = self.config.clone();
        config["cniVersion"] = json!("1.1.0");
        config["cni.dev/valid-attachments"] = json!([]);
        println!("$ CNI_COMMAND=GC {ORCHESTRATOR}\n");
        let call = Call::new(self.recorder.plugins().join(ORCHESTRATOR));
        self.finish(call.env("CNI_COMMAND", "GC"), &config, "")?;
        Ok(())
    }

    fn finish(&self, call: Call, config: &Value, container: &str) -> Result<String> {
        let path = [self.recorder.plugins(), REFERENCE_PLUGINS.as_ref()];
        let call = call
            .env("CNI_PATH", env::join_paths(path)?)
            .stdin(serde_json::to_vec(config)?);
        let output = match &self.tools.node {
            Some(node) => call.run_on(node),
            None => call.run(),
        };
        let main = self.tools.node.as_ref().map(|_| "bridge");
        for call in calls(&self.recorder.take()?) {
            print!("{}", drawing(main, call, container));
        }
        ensure!(
            output.status.success(),
            "it failed: {} {}",
            output.stdout,
            output.stderr
        );
        Ok(output.stdout)
    }

    fn show_files(&self) -> Result<()> {
        let directory = self.root.join("networks/mynet");
        let mut names: Vec<String> = fs::read_dir(&directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        println!("{}:", directory.display());
        for name in names {
            let content = fs::read_to_string(directory.join(&name))?;
            println!("    {name:<20} {content:?}");
        }
        Ok(())
    }
}

fn heading(text: &str) {
    println!("\n== {text}\n");
}

/// The calls of `ipam-delegated`, each with the delegates' behind it.
fn calls(recorded: &[Recorded]) -> impl Iterator<Item = &[Recorded]> {
    let mut rest = recorded;
    std::iter::from_fn(move || {
        let next = (1..rest.len()).find(|&at| rest[at].plugin == ORCHESTRATOR);
        let (call, others) = rest.split_at(next.unwrap_or(rest.len()));
        rest = others;
        (!call.is_empty()).then_some(call)
    })
}

/// The drawing of one call of `ipam-delegated`.
fn drawing(main: Option<&str>, call: &[Recorded], container: &str) -> String {
    let Some((chain, delegates)) = call.split_first() else {
        return String::new();
    };
    let steps: Vec<Step> = delegates
        .iter()
        .map(|it| Step {
            name: match it.command == chain.command {
                true => it.plugin.clone(),
                false => format!("{} {}", it.plugin, it.command),
            },
            took: it.took,
            given: it.input["prevResult"].clone(),
            printed: it.output.clone(),
            success: it.success,
        })
        .collect();
    let outcome = match chain.output["ips"].as_array() {
        Some(_) => format!("{container} has {}", answer_of(&chain.output).join(" and ")),
        None if chain.success => format!("{}: success", chain.command),
        None => format!("{}: {}", chain.command, chain.output["msg"]),
    };
    let plugins: Vec<&str> = main.into_iter().filter(|_| chain.command != "GC").collect();
    draw(&[&plugins[..], &[ORCHESTRATOR]].concat(), &steps, &outcome)
}
