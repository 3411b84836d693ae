//! Delegates in shell that print what a test tells them to, and log each call.

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use fuzz::{Outcome, Sandbox, Variables, call, watched};

/// Script of all delegates. It is started through a link, and finds its answers by the
/// link's place.
const SCRIPT: &str = r#"#!/bin/sh
says=${0%/*}/../state-of-delegates
said=$says/${0##*/}.$CNI_COMMAND
echo "${0##*/} $CNI_COMMAND" >>"$says/log"
[ ! -e "$said.stderr" ] || cat "$said.stderr" >&2
[ ! -e "$said.stdout" ] || cat "$said.stdout"
[ ! -e "$said.end" ] || . "$said.end"
exit 0
"#;

/// The names of the delegates that there are.
pub(crate) const NAMES: [&str; 3] = ["one", "two", "three"];

/// The file that all delegates of a target are links to: written once, since one
/// that has just been written can't always be started.
pub(crate) struct Script(Sandbox);

impl Script {
    pub(crate) fn new() -> Self {
        let delegates = Self(Sandbox::new());
        fs::write(delegates.file(), SCRIPT).unwrap();
        fs::set_permissions(delegates.file(), fs::Permissions::from_mode(0o755)).unwrap();
        delegates
    }

    fn file(&self) -> PathBuf {
        self.0.plugins().join("script")
    }

    /// A sandbox with the delegates in `CNI_PATH`, and one, `trap`, beside it.
    pub(crate) fn sandbox(&self) -> Sandbox {
        let sandbox = Sandbox::new();
        for name in NAMES {
            symlink(self.file(), sandbox.plugins().join(name)).unwrap();
        }
        fs::create_dir(says(&sandbox)).unwrap();
        symlink(self.file(), says(&sandbox).join("trap")).unwrap();
        sandbox
    }
}

fn says(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("state-of-delegates")
}

/// A delegate's answer to a command. By default, it prints nothing and succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// A line of shell that ends it.
    pub(crate) end: &'static str,
}

/// Tells a delegate how to answer a command.
pub(crate) fn tell(sandbox: &Sandbox, name: &str, command: &str, answer: &Answer) {
    for (what, content) in [
        ("stdout", answer.stdout.as_slice()),
        ("stderr", &answer.stderr),
        ("end", answer.end.as_bytes()),
    ] {
        let file = says(sandbox).join(format!("{name}.{command}.{what}"));
        if content.is_empty() {
            let _ = fs::remove_file(file);
        } else {
            fs::write(file, content).unwrap();
        }
    }
}

/// The calls that there have been since this was asked last, as `<name> <command>`.
pub(crate) fn calls(sandbox: &Sandbox) -> Vec<String> {
    let log = says(sandbox).join("log");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(log);
    text.lines().map(str::to_owned).collect()
}

/// Calls the orchestrator with this command; returns what came of it, and which
/// delegates were called.
pub(crate) fn ask(
    input: &dyn Debug,
    sandbox: &Sandbox,
    command: &str,
    config: &[u8],
) -> (Outcome, Vec<String>) {
    let variables = Variables::new(command, &sandbox.plugins());
    let plugin = &ipam_delegated::IpamDelegated::default();
    let outcome = watched(input, || call(plugin, &variables, config));
    (outcome, calls(sandbox))
}
