//! `cargo xtask demo`: two containers from ADD to GC, and two namespaces with a pool each,
//! with the README's conflists and the real plugins.
//!
//! As root, with the reference plugin `bridge`, the containers are network namespaces.
//! Otherwise the demo calls `ipam-delegated`, as `bridge` would.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::{
    Call, Flavour, Form, IPAM_DELEGATED, Node, REFERENCE_PLUGINS, answer_of, is_root, plugins,
    reference,
};
use serde_json::{Value, json};
use state_files::names_in;
use tempfile::TempDir;

/// Programs that make a network namespace.
const NAMESPACE_TOOLS: [&str; 5] = ["bash", "ip", "mount", "nsenter", "unshare"];

/// Shows both conflists at work.
///
/// # Errors
///
/// The plugins cannot be built, or a call fails.
pub fn run() -> Result<()> {
    println!("Building the plugins, as debug builds …");
    let plugins = plugins(Flavour::Normal, Form::OneFile);
    Demo::new("testdata/mynet.conflist", &plugins)?.two_containers()?;
    Demo::new("testdata/tenants.conflist", &plugins)?.two_namespaces()?;
    println!("\nAll as it should be.");
    Ok(())
}

/// A node with the network namespaces `c1` and `c2`; `None`, with the reason printed, if it
/// cannot be made.
fn node() -> Option<Node> {
    let missing_tool = NAMESPACE_TOOLS.into_iter().find(|tool| !is_on_path(tool));
    let made = match missing_tool {
        _ if !is_root() => Err("this isn't run by root".to_owned()),
        _ if reference("bridge").is_none() => Err("the reference plugin bridge isn't installed \
             (Debian: containernetworking-plugins)"
            .to_owned()),
        Some(tool) => Err(format!("{tool} isn't installed")),
        None => Node::try_new(),
    };
    match made {
        Ok(node) => {
            node.sh("ip netns add c1; ip netns add c2");
            println!("The containers are network namespaces, which are removed at the end.");
            Some(node)
        }
        Err(reason) => {
            println!("No network namespaces: {reason}.\nThe demo calls {IPAM_DELEGATED} itself.");
            None
        }
    }
}

fn is_on_path(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// One conflist's calls. The demo is the container runtime.
struct Demo<'a> {
    /// The configuration of the conflist's main plugin, with all state below `root`.
    config: Value,
    root: TempDir,
    plugins: &'a Path,
    node: Option<Node>,
}

impl<'a> Demo<'a> {
    /// Prints the conflist and reads it.
    fn new(path: &str, plugins: &'a Path) -> Result<Self> {
        let conflist =
            fs::read_to_string(harness::repository().join(path)).context(path.to_owned())?;
        println!("\nThe configuration, {path}:\n\n{conflist}");

        let conflist: Value = serde_json::from_str(&conflist)?;
        let root = TempDir::with_prefix("ipam-delegated-demo-")?;
        let mut config = conflist["plugins"][0].clone();
        for key in ["cniVersion", "name"] {
            config[key] = conflist[key].clone();
        }
        for (key, folder) in [("dataDir", "networks"), ("stateDir", "state")] {
            config["ipam"][key] = json!(root.path().join(folder));
        }
        Ok(Self {
            config,
            root,
            plugins,
            node: node(),
        })
    }

    /// From ADD to GC.
    fn two_containers(&self) -> Result<()> {
        heading("The first delegate, a selector, answers with pools");
        let answer = self.call("ipam-ds-ranges", "ADD", "c1", "", &[])?;
        println!("pools: {}", answer["pools"]);
        heading("ADD: the chain gives container c1 an address of each pool");
        let c1 = self.add("c1", "")?;
        heading("ADD: container c2 gets the next ones");
        let c2 = self.add("c2", "")?;
        self.ping(&answer_of(&c2))?;
        heading("CHECK: c1 still has what it was given");
        self.after("CHECK", "c1", &c1)?;
        heading("The reservations are files of host-local's format");
        self.show_files("mynet")?;
        heading("DEL: c1 gives its addresses back");
        self.after("DEL", "c1", &c1)?;
        self.show_files("mynet")?;
        heading("GC: c2 has ended without a DEL, and the runtime lists no valid attachment");
        if let Some(node) = &self.node {
            node.sh("ip netns del c2; ip netns add c2");
        }
        // Debian's bridge knows no GC.
        let none_valid = [
            ("cniVersion", json!("1.1.0")),
            ("cni.dev/valid-attachments", json!([])),
        ];
        self.call(IPAM_DELEGATED, "GC", "", "", &none_valid)?;
        self.show_files("mynet")
    }

    /// A pool for each namespace, a pinned address, and one that is the same after a restart.
    fn two_namespaces(&self) -> Result<()> {
        let database = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=db-0";
        let job = "IgnoreUnknown=1;K8S_POD_NAMESPACE=research;K8S_POD_NAME=job";
        heading("ADD: the pod db-0 of the namespace shop gets the address that is pinned for it");
        let c1 = self.add("c1", database)?;
        heading("ADD: a pod of another namespace gets one of another pool");
        let c2 = self.add("c2", job)?;
        self.ping(&answer_of(&c2))?;
        heading("All named pools have one directory");
        self.show_files("pools")?;
        heading("DEL and ADD: the second pod is restarted, and has its address again");
        self.after("DEL", "c2", &c2)?;
        let again = self.add("c2", job)?;
        ensure!(
            answer_of(&again) == answer_of(&c2),
            "it has another address"
        );
        heading("DEL: the facts of ADD are not needed, since the chain has recorded its answers");
        self.after("DEL", "c1", &c1)?;
        self.after("DEL", "c2", &again)?;
        self.show_files("pools")
    }

    /// The plugin that a runtime would call.
    fn main(&self) -> &'static str {
        self.node.as_ref().map_or(IPAM_DELEGATED, |_| "bridge")
    }

    /// ADD; prints the addresses and returns the result.
    fn add(&self, container: &str, args: &str) -> Result<Value> {
        let result = self.call(self.main(), "ADD", container, args, &[])?;
        println!("{container} has {}", answer_of(&result).join(" and "));
        Ok(result)
    }

    /// A call with the result of the ADD.
    fn after(&self, command: &str, container: &str, result: &Value) -> Result<Value> {
        let keys = [("prevResult", result.clone())];
        self.call(self.main(), command, container, "", &keys)
    }

    /// Prints and runs a plugin's call, with these keys added to the configuration; returns the
    /// result, `null` for none.
    fn call(
        &self,
        plugin: &str,
        command: &str,
        container: &str,
        args: &str,
        keys: &[(&str, Value)],
    ) -> Result<Value> {
        let mut config = self.config.clone();
        for (key, value) in keys {
            config[key] = value.clone();
        }
        let folders = [self.plugins, Path::new(REFERENCE_PLUGINS)];
        let executable = folders
            .iter()
            .map(|folder| folder.join(plugin))
            .find(|path| path.exists());
        let mut call = Call::new(executable.with_context(|| format!("{plugin} is missing"))?)
            .stdin(serde_json::to_vec(&config)?)
            .env("CNI_PATH", env::join_paths(folders)?);
        let netns = format!("/run/netns/{container}");
        let mut shown = "$ ".to_owned();
        for (name, value) in [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", container),
            ("CNI_NETNS", if container.is_empty() { "" } else { &netns }),
            ("CNI_IFNAME", if container.is_empty() { "" } else { "eth0" }),
            ("CNI_ARGS", args),
        ] {
            if !value.is_empty() {
                call = call.env(name, value);
                shown += &match name {
                    "CNI_ARGS" => format!("\\\n  {name}='{value}' "),
                    _ => format!("{name}={value} "),
                };
            }
        }
        println!("{shown}{plugin}");
        let output = match &self.node {
            Some(node) => call.run_on(node),
            None => call.run(),
        };
        eprint!("{}", output.stderr);
        ensure!(
            output.status.success(),
            "{command} failed: {}",
            output.stdout
        );
        match output.stdout.as_str() {
            "" => Ok(Value::Null),
            result => serde_json::from_str(result).context("the result"),
        }
    }

    /// Pings these addresses from the first container, if the containers are namespaces.
    fn ping(&self, addresses: &[String]) -> Result<()> {
        let Some(node) = &self.node else {
            return Ok(());
        };
        if !is_on_path("ping") {
            println!("No pings: ping isn't installed (Debian: iputils-ping).");
            return Ok(());
        }
        heading("The containers reach each other");
        for address in addresses {
            let answer = node.sh(&format!("ip netns exec c1 ping -c 1 -W 5 {address}"));
            println!("{}", answer.lines().nth(1).unwrap_or_default());
        }
        Ok(())
    }

    /// Prints the files of a network's or a pool's directory.
    fn show_files(&self, directory: &str) -> Result<()> {
        let directory = self.root.path().join("networks").join(directory);
        println!("{}:", directory.display());
        for name in names_in(&directory)? {
            let content = fs::read_to_string(directory.join(&name))?;
            println!("    {name:<20} {content:?}");
        }
        Ok(())
    }
}

fn heading(text: &str) {
    println!("\n== {text}\n");
}
