//! Asks an installed plugin for the versions that it supports, with a bound of time.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cni::{Environment, SpecVersion};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

/// The longest that a plugin may take. It only has to print a constant.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer to VERSION: the versions, or an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    supported_versions: Option<Vec<String>>,
    #[serde(default)]
    msg: String,
}

/// The versions of the specification that a plugin says it supports.
///
/// # Errors
///
/// The reason: it can't be executed, it takes too long, its answer is none.
pub(crate) fn versions(
    executable: &Path,
    version: SpecVersion,
    environment: &Environment,
) -> Result<Vec<String>, String> {
    ask(executable, version, environment, TIMEOUT)
}

fn ask(
    executable: &Path,
    version: SpecVersion,
    environment: &Environment,
    timeout: Duration,
) -> Result<Vec<String>, String> {
    // A group of its own, so that processes which it has started end with it.
    let mut child = Command::new(executable)
        .env_clear()
        .envs(environment.iter())
        .env("CNI_COMMAND", "VERSION")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("it can't be executed: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let request = serde_json::json!({ "cniVersion": version.as_str() });
        // A plugin may answer without reading it.
        let _ = stdin.write_all(request.to_string().as_bytes());
    }
    let (sender, answer) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map(|mut it| it.read_to_end(&mut text));
        let _ = sender.send(read.is_some_and(|it| it.is_ok()).then_some(text));
    });
    let text = answer.recv_timeout(timeout);
    // The answer has ended, or its time: nothing of the plugin is needed any more.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        && (text.is_err() || matches!(child.try_wait(), Ok(None)) && !ends(&mut child, timeout))
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    let Ok(text) = text else {
        return Err(format!("it doesn't answer VERSION within {timeout:?}"));
    };
    let text = text.unwrap_or_default();
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err("it prints nothing on VERSION".to_owned());
    }
    let answer: Answer = serde_json::from_slice(&text)
        .map_err(|error| format!("its answer to VERSION is none: {error}"))?;
    let versions = answer.supported_versions;
    versions.ok_or_else(|| {
        format!(
            "its answer to VERSION has no supportedVersions: {:?}",
            answer.msg
        )
    })
}

/// True if the child ends within this time.
fn ends(child: &mut std::process::Child, timeout: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    while waited < timeout {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        thread::sleep(STEP);
        waited += STEP;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_hangs_is_killed_with_what_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let plugin = folder.path().join("hangs");
        let script = format!("#!/bin/sh\nsleep 600 & echo $! > {}\nwait\n", pid.display());
        std::fs::write(&plugin, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&plugin, mode).unwrap();
        let environment = Environment::default().with("PATH", "/usr/bin:/bin");
        let timeout = Duration::from_secs(2);
        let error = ask(&plugin, SpecVersion::V0_4_0, &environment, timeout).unwrap_err();
        assert_eq!(error, "it doesn't answer VERSION within 2s");
        let pid = std::fs::read_to_string(pid).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        // Gone, or dead and not yet waited for by init. Signals arrive in their own time.
        let is_dead = || std::fs::read_to_string(&stat).map_or(true, |it| it.contains(") Z "));
        let mut rounds = 0..1000;
        while !is_dead() {
            rounds.next().expect("what the plugin has started is alive");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
