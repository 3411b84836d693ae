//! The commands of the systemd units, run with runtimes that answer as the real ones do.

use std::fs;
use std::process::Command;

use harness::{Sandbox, repository};

use super::{THERE, add, id, network};

/// The shell command of a unit, as systemd gives it to the shell (systemd.service(5),
/// "Command lines").
fn command(unit: &str) -> String {
    let path = repository().join("docs/systemd").join(unit);
    let text = fs::read_to_string(path).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '"));
    let line = line.unwrap().strip_suffix('\'').unwrap();
    line.replace("\\\\", "\\")
        .replace("$$", "$")
        .replace("%%", "%")
}

/// Runs a unit's command on a node with the containers `a1` and `a2`, whose runtime
/// answers by these scripts; returns the addresses that stay.
fn left_by(unit: &str, programs: &[(&str, &str)]) -> (bool, Vec<String>) {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    for name in ["a1", "a2"] {
        add(&sandbox, &config, &id(name), THERE);
    }
    let folder = sandbox.root().join("bin");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, body: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for (name, body) in programs {
        write(name, body);
    }
    let words: Vec<String> = [
        sandbox.ipamctl(&[]).executable().display().to_string(),
        "--conf-dir".into(),
        sandbox.conf_dir().display().to_string(),
        "--data-dir".into(),
        sandbox.data_dir().display().to_string(),
        "--state-dir".into(),
        sandbox.state_dir().display().to_string(),
        "--cni-path".into(),
        sandbox.plugins().display().to_string(),
        "\"$@\"".into(),
    ]
    .into();
    write("ipamctl", &words.join(" "));
    let tool = folder.join("ipamctl").display().to_string();
    let command = command(unit).replace("/usr/local/sbin/ipamctl", &tool);
    let status = Command::new("/bin/sh")
        .args(["-c", &command])
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("IPAMCTL_OPTIONS", "--older-than 0s")
        .status();
    (status.unwrap().success(), sandbox.reserved("testnet"))
}

fn released() -> (bool, Vec<String>) {
    (true, vec!["10.77.0.2".to_owned()])
}

fn kept(success: bool) -> (bool, Vec<String>) {
    (
        success,
        vec!["10.77.0.2".to_owned(), "10.77.0.3".to_owned()],
    )
}

#[test]
fn each_unit_releases_what_its_runtime_does_not_know() {
    let list = format!("echo {}", id("a1"));
    for (unit, program) in [
        ("ipamctl-gc-podman.service", "podman"),
        ("ipamctl-gc-containerd-crictl.service", "crictl"),
        ("ipamctl-gc-crio.service", "crictl"),
    ] {
        assert_eq!(left_by(unit, &[(program, &list)]), released(), "{unit}");
    }
    let ctr = format!(
        "case \"$1\" in namespaces) echo default;; *) echo {};; esac",
        id("a1")
    );
    assert_eq!(
        left_by("ipamctl-gc-containerd-ctr.service", &[("ctr", &ctr)]),
        released()
    );
}

#[test]
fn a_runtime_that_fails_or_knows_no_container_releases_nothing() {
    for (unit, program) in [
        ("ipamctl-gc-podman.service", "podman"),
        ("ipamctl-gc-containerd-crictl.service", "crictl"),
        ("ipamctl-gc-crio.service", "crictl"),
        ("ipamctl-gc-containerd-ctr.service", "ctr"),
    ] {
        assert_eq!(left_by(unit, &[(program, "exit 1")]), kept(false), "{unit}");
        assert_eq!(left_by(unit, &[(program, "exit 0")]), kept(true), "{unit}");
    }
    // One namespace of two can't be listed.
    let ctr = format!(
        "case \"$1 $2\" in \"namespaces ls\") echo one two;; *one) echo {};; *) exit 1;; esac",
        id("a1")
    );
    assert_eq!(
        left_by("ipamctl-gc-containerd-ctr.service", &[("ctr", &ctr)]),
        kept(false)
    );
}

#[test]
fn containers_of_ctr_are_known_to_cni_with_their_namespace() {
    let ctr = format!(
        "case \"$1\" in namespaces) echo ns;; *) echo {} {};; esac",
        id("a1"),
        id("a2")
    );
    assert_eq!(
        left_by("ipamctl-gc-containerd-ctr.service", &[("ctr", &ctr)]),
        kept(true)
    );
}
