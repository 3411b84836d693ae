//! `cargo xtask demo`: two containers from ADD to GC, and two namespaces with a pool each,
//! with the README's configurations.

mod cluster;
mod drawing;
mod tools;
mod watched_chain;
mod wrapper;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use cni::Environment;
use harness::{Call, Node, ORCHESTRATOR, REFERENCE_PLUGINS, answer_of, repository};
use serde_json::{Value, json};

use crate::build::{BUILT_PLUGINS, Flavour};
use drawing::draw;
use tools::Tools;
use watched_chain::{ChainCall, WatchedChain};
use wrapper::Wrapper;

pub use wrapper::{RunWatchedChain, run_watched_chain};

/// Tells the stories of one node, or those of a cluster.
pub fn run(of_cluster: bool) -> Result<()> {
    let built = match env::var_os(BUILT_PLUGINS) {
        Some(folder) => PathBuf::from(folder),
        None => {
            println!("Building the plugins, as debug builds …");
            Flavour::Normal.build("dev")?.separate
        }
    };
    if of_cluster {
        cluster::run(&built)?;
        println!("\nAll as it should be.");
        return Ok(());
    }
    let tell = |conflist: &str, story: fn(&Runtime) -> Result<()>| {
        let root = tempfile::Builder::new()
            .prefix("ipam-delegated-demo-")
            .tempdir()?;
        story(&Runtime {
            config: config(conflist, root.path())?,
            root: root.path().to_owned(),
            tools: Tools::find(),
            wrapper: Wrapper::new(root.path())?,
            built: built.clone(),
        })
    };
    tell("testdata/mynet.conflist", Runtime::one_life)?;
    tell("testdata/tenants.conflist", Runtime::two_namespaces)?;
    println!("\nAll as it should be.");
    Ok(())
}

/// The configuration of [`config_of`], after it has shown the conflist.
fn config(path: &str, root: &Path) -> Result<Value> {
    let conflist = fs::read_to_string(repository().join(path)).context(path.to_owned())?;
    println!("\nThe configuration, {path}:\n\n{conflist}");
    config_of(path, root)
}

/// The configuration of the conflist's plugin as a runtime hands it on, with all state
/// below `root`.
fn config_of(path: &str, root: &Path) -> Result<Value> {
    let conflist = fs::read_to_string(repository().join(path)).context(path.to_owned())?;
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

/// The runtime of the demo: it calls the main plugin, or runs the chain itself.
struct Runtime {
    config: Value,
    root: PathBuf,
    tools: Tools,
    /// The chain as an executable, for the main plugin.
    wrapper: Wrapper,
    /// The folder of the delegates.
    built: PathBuf,
}

impl Runtime {
    fn one_life(&self) -> Result<()> {
        heading("ADD: container c1 gets an address of each family");
        let c1 = self.add("c1", "")?;
        heading("ADD: container c2 gets the next ones");
        let c2 = self.add("c2", "")?;
        self.ping(&answer_of(&c2));
        heading("CHECK: c1 still has what it was given");
        self.call("CHECK", "c1", "", &[("prevResult", c1.clone())])?;
        heading("The files of host-local's format that hold the reservations");
        self.show_files("mynet")?;
        heading("DEL: c1 gives its addresses back");
        self.call("DEL", "c1", "", &[("prevResult", c1)])?;
        println!();
        self.show_files("mynet")?;
        heading("GC: the runtime has lost c2, and lists no valid attachment");
        self.gc()?;
        println!();
        self.show_files("mynet")
    }

    fn two_namespaces(&self) -> Result<()> {
        let pod = |namespace: &str, name: &str| {
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}")
        };
        let (db, job) = (pod("shop", "db-0"), pod("research", "job"));
        heading("ADD: the pod db-0 of the namespace shop gets the address that is pinned for it");
        let c1 = self.add("c1", &db)?;
        heading("ADD: a pod of another namespace gets one of another pool");
        let c2 = self.add("c2", &job)?;
        self.ping(&answer_of(&c2));
        heading("Each pool has a directory of its own");
        self.show_files("shop")?;
        self.show_files("lab")?;
        heading("DEL and ADD: the second pod is restarted, and has its address again");
        self.call("DEL", "c2", "", &[("prevResult", c2.clone())])?;
        let again = self.add("c2", &job)?;
        ensure!(
            answer_of(&again) == answer_of(&c2),
            "it has another address"
        );
        heading("DEL: without what the runtime said on ADD");
        self.call("DEL", "c1", "", &[("prevResult", c1)])?;
        self.call("DEL", "c2", "", &[("prevResult", again)])?;
        println!();
        self.show_files("shop")?;
        self.show_files("lab")
    }

    fn add(&self, container: &str, args: &str) -> Result<Value> {
        let result = self.call("ADD", container, args, &[])?;
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

    /// Calls the main plugin with these `CNI_ARGS`, and these keys added to its
    /// configuration.
    fn call(
        &self,
        command: &str,
        container: &str,
        args: &str,
        keys: &[(&str, Value)],
    ) -> Result<String> {
        let mut config = self.config.clone();
        for (key, value) in keys {
            config[key] = value.clone();
        }
        let main = self.tools.node.as_ref().map(|_| "bridge");
        let shown = match args {
            "" => String::new(),
            args => format!("\\\n  CNI_ARGS='{args}' "),
        };
        println!(
            "$ CNI_COMMAND={command} CNI_CONTAINERID={container} CNI_NETNS=/run/netns/{container} \
             CNI_IFNAME=eth0 {shown}{}\n",
            main.unwrap_or(ORCHESTRATOR)
        );
        let environment = self
            .environment(command)?
            .with("CNI_CONTAINERID", container)
            .with("CNI_NETNS", format!("/run/netns/{container}"))
            .with("CNI_IFNAME", "eth0")
            .with("CNI_ARGS", args);
        self.finish(main, &environment, &config, container)
    }

    /// Calls GC of `ipam-delegated`: Debian's `bridge` doesn't hand it on.
    fn gc(&self) -> Result<()> {
        let mut config = self.config.clone();
        config["cniVersion"] = json!("1.1.0");
        config["cni.dev/valid-attachments"] = json!([]);
        println!("$ CNI_COMMAND=GC {ORCHESTRATOR}\n");
        self.finish(None, &self.environment("GC")?, &config, "")?;
        Ok(())
    }

    fn environment(&self, command: &str) -> Result<Environment> {
        // The wrapper comes before the plugin whose name it has.
        let path = [
            self.wrapper.folder(),
            &self.built,
            REFERENCE_PLUGINS.as_ref(),
        ];
        Ok(Environment::default()
            .with("CNI_COMMAND", command)
            .with("CNI_PATH", env::join_paths(path)?))
    }

    /// Makes the call, draws the calls of the chain in it, and returns the result.
    fn finish(
        &self,
        main: Option<&str>,
        environment: &Environment,
        config: &Value,
        container: &str,
    ) -> Result<String> {
        let stdin = serde_json::to_vec(config)?;
        let (success, stdout, calls) = match &self.tools.node {
            Some(node) => self.on(node, main, environment, stdin)?,
            None => in_this_process(environment, &stdin)?,
        };
        for call in &calls {
            print!("{}", drawing(main, call, container));
        }
        ensure!(success, "it failed: {stdout}");
        Ok(stdout)
    }

    /// Calls the main plugin, or `ipam-delegated` without one, on the node.
    fn on(
        &self,
        node: &Node,
        main: Option<&str>,
        environment: &Environment,
        stdin: Vec<u8>,
    ) -> Result<Made> {
        let executable = match main {
            Some(main) => Path::new(REFERENCE_PLUGINS).join(main),
            None => self.wrapper.folder().join(ORCHESTRATOR),
        };
        let mut call = Call::new(executable).stdin(stdin);
        for (name, value) in environment.iter() {
            call = call.env(&name.to_string_lossy(), value);
        }
        let output = call.run_on(node);
        eprint!("{}", output.stderr);
        Ok((output.status.success(), output.stdout, self.wrapper.take()?))
    }

    fn show_files(&self, network: &str) -> Result<()> {
        let directory = self.root.join("networks").join(network);
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

/// A call that was made: whether it succeeded, stdout, and the chain's calls in it.
type Made = (bool, String, Vec<ChainCall>);

fn heading(text: &str) {
    println!("\n== {text}\n");
}

/// Runs the chain in this process; its delegates are executed.
fn in_this_process(environment: &Environment, stdin: &[u8]) -> Result<Made> {
    let calls = Mutex::new(Vec::new());
    let tell = |call| calls.lock().expect("no call panics").push(call);
    let plugin = WatchedChain { tell: &tell };
    let mut read = || Ok(stdin.to_vec());
    let output = plugin::respond(&plugin, environment, &mut read, None);
    let stdout = String::from_utf8(output.stdout)?;
    Ok((
        output.success,
        stdout,
        calls.into_inner().expect("no call panics"),
    ))
}

/// The drawing of one call of the chain.
fn drawing(main: Option<&str>, call: &ChainCall, container: &str) -> String {
    let command = &call.command;
    let outcome = match &call.outcome {
        Ok(result) if result["ips"].is_array() => {
            format!("{container} has {}", answer_of(result).join(" and "))
        }
        Ok(_) => format!("{command}: success"),
        Err(error) => format!("{command}: {error}"),
    };
    let plugins: Vec<&str> = main.into_iter().chain([ORCHESTRATOR]).collect();
    draw(&plugins, &call.steps, &outcome)
}
