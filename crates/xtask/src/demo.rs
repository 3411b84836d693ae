//! `cargo xtask demo`: the chain at work, on the README's configuration.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::{Call, Node, PLUGINS, REFERENCE_PLUGINS, is_root, reference, repository};
use serde_json::{Value, json};

use crate::build::Flavour;
use crate::recorder::{Record, Recorder};

const CONFLIST: &str = "testdata/mynet.conflist";

pub(crate) fn run() -> Result<()> {
    println!("Building the plugins …");
    let built = Flavour::Normal.build("dev")?.separate;
    let root = tempfile::Builder::new()
        .prefix("ipam-delegated-demo-")
        .tempdir()?;
    let recorder = Recorder::new(root.path())?;
    for plugin in PLUGINS {
        recorder.wrap(&built.join(plugin))?;
    }
    let runtime = Runtime {
        config: request(&root.path().join("networks"))?,
        networks: root.path().join("networks"),
        node: node(),
        recorder,
    };
    runtime.story()
}

/// Where containers can be made, if they can.
fn node() -> Option<Node> {
    let why_not = if !is_root() {
        "this isn't run by root"
    } else if reference("bridge").is_none() {
        "the reference plugin bridge isn't installed (Debian: containernetworking-plugins)"
    } else {
        println!(
            "As root, and with {REFERENCE_PLUGINS}/bridge: containers are network namespaces, \
             on a node that is one, too, and is gone at the end."
        );
        let node = Node::new();
        node.sh("ip netns add c1; ip netns add c2");
        return Some(node);
    };
    println!(
        "No network namespaces and no pings, because {why_not}: \
         ipam-delegated is called as the main plugin would call it."
    );
    None
}

/// What a runtime makes of the conflist's plugin, with the state kept in here.
fn request(networks: &Path) -> Result<Value> {
    let conflist = fs::read_to_string(repository().join(CONFLIST)).context(CONFLIST)?;
    println!("The configuration, {CONFLIST}:\n\n{conflist}");
    let conflist: Value = serde_json::from_str(&conflist)?;
    let mut config = conflist["plugins"][0].clone();
    config["cniVersion"] = conflist["cniVersion"].clone();
    config["name"] = conflist["name"].clone();
    config["ipam"]["dataDir"] = json!(networks);
    config["ipam"]["cacheDir"] = json!(networks.with_file_name("cache"));
    config["ipam"]["stateDir"] = json!(networks.with_file_name("state"));
    Ok(config)
}

struct Runtime {
    config: Value,
    networks: PathBuf,
    node: Option<Node>,
    recorder: Recorder,
}

impl Runtime {
    fn story(&self) -> Result<()> {
        self.heading("ADD: container c1 gets an address of each family");
        let c1 = self.add("c1")?;
        self.heading("ADD: container c2 gets the next ones");
        let c2 = self.add("c2")?;
        if let Some(node) = &self.node {
            self.heading("The containers reach each other");
            for ip in harness::answer_of(&c2) {
                let said = node.sh(&format!("ip netns exec c1 ping -c 1 -W 5 {ip}"));
                println!("{}", said.lines().nth(1).unwrap_or_default());
            }
        }
        self.heading("CHECK: c1 has what it was given");
        self.call("CHECK", "c1", &[("prevResult", c1.clone())])?;
        self.heading("What is on disk now");
        self.show_files()?;
        self.heading("DEL: c1 gives its addresses back");
        self.call("DEL", "c1", &[("prevResult", c1)])?;
        self.show_files()?;
        self.heading("GC: the runtime has lost c2, and lists no valid attachment");
        self.gc()?;
        self.show_files()?;
        println!("\nAll as it should be.");
        Ok(())
    }

    fn add(&self, container: &str) -> Result<Value> {
        let result = self.call("ADD", container, &[])?;
        let result: Value = serde_json::from_str(&result)?;
        println!(
            "=> {container} has {}",
            harness::answer_of(&result).join(" and ")
        );
        Ok(result)
    }

    /// A call of the main plugin, with these keys added to its configuration.
    fn call(&self, command: &str, container: &str, keys: &[(&str, Value)]) -> Result<String> {
        let mut config = self.config.clone();
        for (key, value) in keys {
            config[key] = value.clone();
        }
        let main = match &self.node {
            Some(_) => Path::new(REFERENCE_PLUGINS).join("bridge"),
            None => self.recorder.plugins().join("ipam-delegated"),
        };
        println!(
            "$ CNI_COMMAND={command} CNI_CONTAINERID={container} CNI_NETNS=/run/netns/{container} \
             CNI_IFNAME=eth0 {}",
            main.file_name().unwrap_or_default().display()
        );
        let call = Call::new(main)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", format!("/run/netns/{container}"))
            .env("CNI_IFNAME", "eth0");
        self.finish(call, &config)
    }

    /// GC, of which Debian's `bridge` knows nothing: as a newer one hands it on.
    fn gc(&self) -> Result<()> {
        let mut config = self.config.clone();
        config["cniVersion"] = json!("1.1.0");
        config["cni.dev/valid-attachments"] = json!([]);
        println!("$ CNI_COMMAND=GC ipam-delegated");
        let call = Call::new(self.recorder.plugins().join("ipam-delegated"));
        self.finish(call.env("CNI_COMMAND", "GC"), &config)?;
        Ok(())
    }

    fn finish(&self, call: Call, config: &Value) -> Result<String> {
        let path = [self.recorder.plugins(), REFERENCE_PLUGINS.as_ref()];
        let call = call
            .env("CNI_PATH", std::env::join_paths(path)?)
            .stdin(serde_json::to_vec(config)?);
        let output = match &self.node {
            Some(node) => call.run_on(node),
            None => call.run(),
        };
        show_records(&self.recorder.take()?);
        ensure!(
            output.status.success(),
            "it failed: {} {}",
            output.stdout,
            output.stderr
        );
        Ok(output.stdout)
    }

    fn show_files(&self) -> Result<()> {
        let directory = self.networks.join("mynet");
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

    fn heading(&self, text: &str) {
        println!("\n== {text}\n");
    }
}

/// What `ipam-delegated` received, which delegates it called with what, and
/// what each answered.
fn show_records(records: &[Record]) {
    let Some((orchestrator, delegates)) = records.split_first() else {
        return;
    };
    println!("{} receives {}", orchestrator.plugin, orchestrator.input);
    for delegate in delegates {
        println!("  calls {} {}", delegate.plugin, delegate.command);
        println!(
            "    with {}",
            difference(&orchestrator.input, &delegate.input)
        );
        println!("    it answers {}", or_nothing(&delegate.output));
    }
    println!(
        "{} answers {}",
        orchestrator.plugin,
        or_nothing(&orchestrator.output)
    );
}

/// The delegate's input, as told by what it adds to what came.
fn difference(received: &str, handed_on: &str) -> String {
    if received == handed_on {
        return "the same".to_owned();
    }
    match serde_json::from_str::<Value>(handed_on) {
        Ok(config) => format!("the same, and prevResult {}", config["prevResult"]),
        Err(_) => handed_on.to_owned(),
    }
}

fn or_nothing(output: &str) -> &str {
    match output.trim() {
        "" => "nothing, which is success",
        output => output,
    }
}
