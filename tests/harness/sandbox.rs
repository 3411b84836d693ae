//! Sandbox of a test: private folders for plugins, reservations, records and logs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::build::{executable, plugins};
use crate::waiting::{PATIENCE, wait_within};
use crate::{
    Call, IPAMCTL, PLUGINS, REFERENCE_PLUGINS, failure_report, network_plugins, reference,
    repository, write_executable,
};

/// A build of the plugins, with its log levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Warnings and errors to stderr.
    Normal,
    /// Also everything at debug level to a file.
    Verbose,
}

/// The form in which the plugins are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each is a separate executable.
    Separate,
    /// All are links to one multi-call executable.
    OneFile,
}

/// The folders of a test. Dropping this value removes them.
pub struct Sandbox {
    root: TempDir,
}

impl Drop for Sandbox {
    /// If the test has failed, prints the contents of the sandbox.
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", failure_report::files(self.root()));
        }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new(Flavour::Normal)
    }
}

impl Sandbox {
    /// A sandbox with our plugins, as links to one multi-call executable.
    pub fn new(flavour: Flavour) -> Self {
        Self::in_form(flavour, Form::OneFile)
    }

    /// A sandbox with our plugins.
    pub fn in_form(flavour: Flavour, form: Form) -> Self {
        let root = TempDir::with_prefix("ipam-delegated-test-").unwrap();
        let sandbox = Self { root };
        fs::create_dir(sandbox.plugins()).unwrap();
        sandbox.link_plugins(&plugins(flavour, form));
        sandbox
    }

    /// Has our plugins of this folder, in the place of others.
    pub(crate) fn link_plugins(&self, folder: &Path) {
        for name in PLUGINS {
            let link = self.plugins().join(name);
            let _ = fs::remove_file(&link);
            symlink(folder.join(name), link).unwrap();
        }
    }

    /// Adds the plugins with a network client.
    #[must_use]
    pub fn with_network_plugins(self, flavour: Flavour) -> Self {
        for name in network_plugins() {
            symlink(executable(name, flavour), self.plugins().join(name)).unwrap();
        }
        self
    }

    /// The folder that contains all others.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The default of `CNI_PATH`.
    pub fn plugins(&self) -> PathBuf {
        self.root().join("plugins")
    }

    /// The `dataDir` of [`Self::config`].
    pub fn data_dir(&self) -> PathBuf {
        self.root().join("networks")
    }

    /// The `stateDir` of [`Self::config`], and the default in [`Self::call`].
    pub fn state_dir(&self) -> PathBuf {
        self.root().join("state")
    }

    /// The folder of the verbose flavour's logs.
    pub fn log_dir(&self) -> PathBuf {
        self.root().join("log")
    }

    /// Adds a reference plugin, if it is installed.
    #[must_use]
    pub fn with_reference(self, name: &str) -> Self {
        if let Some(executable) = reference(name) {
            symlink(executable, self.plugins().join(name)).unwrap();
        }
        self
    }

    /// Adds a delegate of `testdata/delegates`.
    #[must_use]
    pub fn with_testdata(self, name: &str) -> Self {
        let script = repository().join("testdata/delegates").join(name);
        symlink(script, self.plugins().join(name)).unwrap();
        self
    }

    /// Adds a delegate written in shell. The command is in `CNI_COMMAND`, and the configuration on
    /// stdin.
    #[must_use]
    pub fn with_script(self, name: &str, body: &str) -> Self {
        self.write_executable(name, &format!("#!/bin/sh\nset -u\n{body}\n"));
        self
    }

    /// Writes an executable file into the plugins' folder. It replaces a link to one of our
    /// plugins.
    pub fn write_executable(&self, name: &str, content: &str) {
        write_executable(&self.plugins().join(name), content);
    }

    /// A configuration for `ipam-delegated` with these delegates, with all folders in the sandbox,
    /// and with further keys of `ipam`.
    pub fn config(&self, version: &str, delegates: &[&str], ipam: &Value) -> Value {
        let mut all = json!({
            "type": "ipam-delegated",
            "delegates": delegates,
            "dataDir": self.data_dir(),
            "stateDir": self.state_dir(),
        });
        let keys = all.as_object_mut().unwrap();
        keys.extend(ipam.as_object().unwrap().clone());
        json!({"cniVersion": version, "name": "testnet", "type": "bridge", "ipam": all})
    }

    /// A call of one of the plugins.
    pub fn call(&self, plugin: &str, command: &str, config: &Value) -> Call {
        Call::new(self.plugins().join(plugin))
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", "c1")
            .env("CNI_NETNS", "/run/netns/c1")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", self.plugins())
            .env("IPAM_DELEGATED_LOG_DIR", self.log_dir())
            .env("IPAM_DELEGATED_STATE_DIR", self.state_dir())
            .stdin(serde_json::to_vec(config).unwrap())
    }

    /// A call of the reference main plugin that the configuration names, for a container and the
    /// network namespace of the same name.
    pub fn call_main_plugin(&self, command: &str, container: &str, config: &Value) -> Call {
        let main = config["type"].as_str().unwrap();
        let path = [self.plugins(), REFERENCE_PLUGINS.into()];
        Call::new(Path::new(REFERENCE_PLUGINS).join(main))
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", format!("/run/netns/{container}"))
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", std::env::join_paths(path).unwrap())
            .stdin(serde_json::to_vec(config).unwrap())
    }

    /// The folder of conflists that [`Self::ipamctl`] reads.
    pub fn conf_dir(&self) -> PathBuf {
        self.root().join("net.d")
    }

    /// Writes a conflist with this plugin as its only one.
    pub fn write_conflist(&self, file: &str, config: &Value) {
        let mut plugin = config.clone();
        let keys = plugin.as_object_mut().unwrap();
        let version = keys.remove("cniVersion");
        let name = keys.remove("name");
        let list = json!({"cniVersion": version, "name": name, "plugins": [plugin]});
        self.write_conf(file, &serde_json::to_string_pretty(&list).unwrap());
    }

    /// Writes a file among the conflists.
    pub fn write_conf(&self, file: &str, content: &str) {
        fs::create_dir_all(self.conf_dir()).unwrap();
        fs::write(self.conf_dir().join(file), content).unwrap();
    }

    /// A call of `ipamctl` with this sandbox's folders and these further arguments.
    pub fn ipamctl(&self, words: &[&str]) -> Call {
        let line = self.ipamctl_line();
        Call::new(line[0].clone()).args(&line[1..]).args(words)
    }

    /// The command line of `ipamctl` with this sandbox's folders.
    pub fn ipamctl_line(&self) -> Vec<PathBuf> {
        vec![
            executable(IPAMCTL, Flavour::Normal),
            "--conf-dir".into(),
            self.conf_dir(),
            "--data-dir".into(),
            self.data_dir(),
            "--state-dir".into(),
            self.state_dir(),
            "--docker-state-dir".into(),
            self.docker_state(),
            "--cni-path".into(),
            self.plugins(),
        ]
    }

    /// The reservations of a network or pool, sorted: address and content of the file.
    pub fn reservations(&self, network: &str) -> Vec<(String, String)> {
        let folder = self.data_dir().join(network);
        if !folder.exists() {
            return Vec::new();
        }
        let reservations = names(&folder).into_iter().filter_map(|name| {
            name.parse::<std::net::IpAddr>().ok()?;
            let content = fs::read_to_string(folder.join(&name)).unwrap_or_default();
            Some((name, content))
        });
        reservations.collect()
    }

    /// The names of the records of a network, sorted.
    pub fn records(&self, network: &str) -> Vec<String> {
        let folder = self.state_dir().join(network);
        if folder.exists() {
            names(folder)
        } else {
            Vec::new()
        }
    }

    /// The processes with this sandbox's `CNI_PATH` in their environment, as `<pid> <command
    /// line>`.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("CNI_PATH={}", self.plugins().display());
        let entries = fs::read_dir("/proc").unwrap();
        entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let environ = fs::read(path.join("environ")).ok()?;
                let ours = environ
                    .split(|byte| *byte == 0)
                    .any(|v| v.starts_with(mark.as_bytes()));
                let line = fs::read_to_string(path.join("cmdline")).ok()?;
                let pid = path.file_name()?.to_str()?.to_owned();
                ours.then(|| format!("{pid} {}", line.replace('\0', " ")))
            })
            .collect()
    }

    /// The processes of [`Self::processes`] that don't end: a killed process needs a moment.
    pub fn processes_that_stay(&self) -> Vec<String> {
        wait_within(PATIENCE, || self.processes().is_empty());
        self.processes()
    }

    /// The reserved addresses, sorted.
    pub fn reserved(&self, network: &str) -> Vec<String> {
        self.reservations(network)
            .into_iter()
            .map(|(ip, _)| ip)
            .collect()
    }
}

/// The names in a folder, sorted.
#[track_caller]
pub fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
