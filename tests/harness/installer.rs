//! The image's entry point in a sandbox, with releases of any version.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::waiting::wait_or_say;
use crate::{
    Background, Call, Flavour, INSTALLER, IPAMCTL, Node, Output, PLUGINS, Sandbox, executable,
};

/// The executable of the entry point.
pub fn installer_executable() -> PathBuf {
    executable(INSTALLER, Flavour::Normal)
}

/// Content of an executable that reports this version like the project's executables.
pub fn plugin_of_version(version: &str) -> String {
    format!(
        "#!/bin/sh\n# executable of ipam-delegated (version {version})\n\
         echo 'ipam-delegated {version} (a1b2c3d4e5f6, normal)'\n"
    )
}

/// Entry points, their target folders, and the releases that they install.
pub struct Installation {
    /// The folder that contains the others.
    pub sandbox: Sandbox,
}

impl Default for Installation {
    fn default() -> Self {
        let sandbox = Sandbox::default();
        fs::remove_dir_all(sandbox.plugins()).unwrap();
        Self { sandbox }
    }
}

/// The text of an installed JSON file without the installer's mark, as it was in the ConfigMap.
pub fn unmarked(text: &str) -> String {
    let mark = "\n  \"installedBy\": \"ipam-installer\"";
    text.replacen(&format!("{mark},"), "", 1)
        .replacen(mark, "", 1)
}

impl Installation {
    /// A file or a folder of the node.
    pub fn path(&self, name: &str) -> PathBuf {
        self.sandbox.root().join(name)
    }

    /// A release of this version, with small scripts for plugins and the real `ipamctl`.
    pub fn release(&self, version: &str) -> PathBuf {
        let folder = self.path(&format!("release-{version}"));
        for name in ["plugins", "network-plugins", "sbin"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let [first, others @ ..] = PLUGINS.map(|plugin| folder.join("plugins").join(plugin));
        write_executable(&first, &plugin_of_version(version));
        for other in others {
            let _ = fs::remove_file(&other);
            fs::hard_link(&first, &other).unwrap();
        }
        let tool = executable(IPAMCTL, Flavour::Normal);
        let copy = folder.join("sbin").join(IPAMCTL);
        // A second copy would write through the link and empty the executable.
        if !copy.exists() {
            fs::hard_link(&tool, &copy)
                .or_else(|_| fs::copy(&tool, &copy).map(|_| ()))
                .unwrap();
        }
        folder
    }

    /// Writes files of a ConfigMap of this kind, `pools` or `conflists`; returns its argument.
    pub fn config(&self, kind: &str, files: &[(&str, &str)]) -> String {
        let from = self.path("config").join(kind);
        fs::create_dir_all(&from).unwrap();
        for (name, content) in files {
            fs::write(from.join(name), content).unwrap();
        }
        format!("--{kind}-from={}", from.display())
    }

    /// A call of the entry point for a release, with further arguments.
    pub fn call(&self, release: &Path, words: &[&str]) -> Call {
        Call::new(installer_executable())
            .args(self.arguments(release))
            .args(words)
    }

    /// The arguments with the folders of the node.
    fn arguments(&self, release: &Path) -> Vec<String> {
        let word = |name: &str, path: &Path| format!("--{name}={}", path.display());
        vec![
            word("from", release),
            word("plugins", &self.sandbox.plugins()),
            word("pools", &self.path("cni/ipam.d")),
            word("conflists", &self.path("cni/net.d")),
            word("data-dir", &self.sandbox.data_dir()),
            word("state-dir", &self.sandbox.state_dir()),
            word("status-file", &self.path("status")),
        ]
    }

    /// Runs the entry point for a release, with further arguments, to its end.
    pub fn run(&self, release: &Path, words: &[&str]) -> Output {
        self.call(release, words).run()
    }

    /// Installs a release, and ends.
    pub fn once(&self, release: &Path) -> Output {
        self.run(release, &["--once"])
    }

    /// Starts an entry point without `--once`, with a separate socket for the probe, and waits until
    /// it listens.
    pub fn stay(&self, release: &Path, words: &[&str]) -> Staying {
        self.stay_by(Command::new(installer_executable()), release, words)
    }

    /// As [`Self::stay`], for a new release of this version, until it is ready.
    #[track_caller]
    pub fn ready(&self, version: &str) -> Staying {
        let staying = self.stay(&self.release(version), &[]);
        staying.wait(|ready, _| ready);
        staying
    }

    /// As [`Self::stay`], on a test node, where mounts are private.
    pub fn stay_on(&self, node: &Node, release: &Path) -> Staying {
        let command = node.command(installer_executable().to_str().unwrap());
        self.stay_by(command, release, &[])
    }

    /// As [`Self::stay`], with a command whose last word is the entry point's executable.
    pub fn stay_by(&self, mut command: Command, release: &Path, words: &[&str]) -> Staying {
        let status = self.path(&format!(
            "status-{}",
            fs::read_dir(self.sandbox.root()).unwrap().count()
        ));
        let log = status.with_extension("log");
        let mut arguments = self.arguments(release);
        arguments.retain(|word| !word.starts_with("--status-file"));
        arguments.push(format!("--status-file={}", status.display()));
        let process = Background::start(command.args(arguments).args(words), &log);
        let mut staying = Staying {
            process,
            status,
            log,
        };
        let status = staying.status.clone();
        let is_there = || {
            let has_ended = staying.process.has_ended();
            assert!(!has_ended, "it has ended: {}", staying.log());
            status.exists()
        };
        wait_or_say(is_there, || "it says nothing");
        staying
    }

    /// The content of each plugin, in the order of [`PLUGINS`]; `None` for a missing one.
    pub fn installed(&self) -> Vec<Option<String>> {
        let read = |name: &str| fs::read_to_string(self.sandbox.plugins().join(name)).ok();
        PLUGINS.map(read).into()
    }

    /// True if all plugins are of this version.
    pub fn is_installed(&self, version: &str) -> bool {
        let wanted = Some(plugin_of_version(version));
        self.installed().iter().all(|content| *content == wanted)
    }
}

/// An entry point that keeps running. Dropping it kills it.
pub struct Staying {
    process: Background,
    status: PathBuf,
    log: PathBuf,
}

impl Staying {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its stderr so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A probe's result: whether it is ready, and its message.
    pub fn probe(&self) -> (bool, String) {
        let status = format!("--status-file={}", self.status.display());
        let output = Call::new(installer_executable())
            .args(["--probe", &status])
            .run();
        (output.status.success(), output.stdout.trim().to_owned())
    }

    /// Waits until `holds` is true for a probe's result.
    #[track_caller]
    pub fn wait(&self, holds: impl Fn(bool, &str) -> bool) {
        self.wait_until(|| {
            let (is_ready, said) = self.probe();
            holds(is_ready, &said)
        });
    }

    /// Waits until `holds` is true.
    #[track_caller]
    pub fn wait_until(&self, holds: impl FnMut() -> bool) {
        wait_or_say(holds, || format!("{:?}\n{}", self.probe(), self.log()));
    }

    /// Ends it with SIGTERM; true if it exits successfully.
    pub fn terminate(self) -> bool {
        self.process.signal(Signal::TERM);
        self.process.wait()
    }

    /// Kills it, with SIGKILL.
    pub fn kill(self) {
        drop(self);
    }
}

/// Writes an executable, and replaces an existing file or link.
///
/// Another process writes it: a process that another test starts meanwhile would inherit an open
/// file of this one, and the kernel executes no file that is open for writing (`ETXTBSY`).
pub fn write_executable(path: &Path, content: &str) {
    let mut install = Command::new("install");
    install
        .args(["--mode=755", "--no-target-directory", "/dev/stdin"])
        .arg(path);
    let mut install = install.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = install.stdin.take().unwrap();
    stdin.write_all(content.as_bytes()).unwrap();
    drop(stdin);
    assert!(install.wait().unwrap().success(), "{}", path.display());
}

impl Installation {
    /// Installs a release on a test node, where mounts are private.
    pub fn once_on(&self, node: &Node, release: &Path) -> Output {
        self.call(release, &["--once"]).run_on(node)
    }
}
