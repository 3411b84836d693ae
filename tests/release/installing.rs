//! Replaces installed plugins while containers start and end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{
    Flavour, IPAM_DELEGATED, PLUGINS, Release, Sandbox, cargo_by_hand, dist, needs,
    network_plugins, one_inode,
};

use crate::traffic::{a_container_comes_and_goes, meanwhile};
use harness::{blocks, document};

/// Checks that a folder contains exactly this release's plugins: links to one file, and those with
/// a network client.
#[track_caller]
fn assert_installed(plugins: &Path, flavour: Flavour) {
    let folder = tempfile::tempdir().unwrap();
    let top = Release::of(flavour).extract(folder.path());
    let released = fs::read(top.join("bin").join(IPAM_DELEGATED)).unwrap();
    assert!(fs::read(plugins.join(IPAM_DELEGATED)).unwrap() == released);
    one_inode(plugins);
    let expected = PLUGINS.len() + network_plugins().count();
    assert_eq!(fs::read_dir(plugins).unwrap().count(), expected);
}

/// The manual's commands to check and to install an archive, with these folders.
fn by_hand(release: &Release, plugins: &Path) -> [String; 2] {
    let manual = document("docs/operations.md");
    let (_, section) = manual.split_once("### From a release archive\n").unwrap();
    let commands = blocks(section.split_once("\n#").unwrap().0, "sh");
    let version = env!("CARGO_PKG_VERSION");
    let example = &format!("ipam-delegated-{version}-x86_64-linux.tar.gz");
    assert!(
        commands.iter().all(|command| command.contains(example)),
        "{commands:?}"
    );
    assert!(commands[1].contains("/opt/cni/bin"), "{commands:?}");
    let here = |commands: &String| {
        let commands = commands.replace(example, release.name());
        commands.replace("/opt/cni/bin", plugins.to_str().unwrap())
    };
    [here(&commands[0]), here(&commands[1])]
}

fn sh(commands: &str, folder: PathBuf) -> bool {
    let mut sh = Command::new("sh");
    let status = sh.args(["-euc", commands]).current_dir(folder).status();
    status.unwrap().success()
}

#[test]
fn the_manuals_commands_swap_the_plugins_under_running_containers() {
    needs!("dist");
    let sandbox = Sandbox::default();
    let plugins = sandbox.plugins();
    let swap = |flavour: Flavour| {
        for commands in by_hand(&Release::of(flavour), &plugins) {
            assert!(sh(&commands, dist().unwrap()), "{commands}");
        }
    };
    meanwhile(&sandbox, || {
        // To the other flavour and back.
        for _ in 0..2 {
            swap(Flavour::Normal);
            swap(Flavour::Verbose);
        }
    });
    assert_installed(&plugins, Flavour::Verbose);
}

#[test]
fn the_manuals_commands_find_a_damaged_archive_and_leave_what_is_there() {
    needs!("dist");
    let sandbox = Sandbox::default();
    let release = Release::of(Flavour::Normal);
    let folder = sandbox.root().join("download");
    fs::create_dir(&folder).unwrap();
    fs::copy(
        dist().unwrap().join("SHA256SUMS"),
        folder.join("SHA256SUMS"),
    )
    .unwrap();
    let mut half = fs::read(&release.archive).unwrap();
    half.truncate(half.len() / 2);
    fs::write(folder.join(release.name()), half).unwrap();
    let [check, install] = by_hand(&release, &sandbox.plugins());
    assert!(!sh(&check, folder.clone()));
    // Even without the check, nothing of a damaged archive is installed.
    let before = PLUGINS.map(|plugin| fs::read_link(sandbox.plugins().join(plugin)).unwrap());
    sh(&install, folder);
    let after = PLUGINS.map(|plugin| fs::read_link(sandbox.plugins().join(plugin)).unwrap());
    assert_eq!(before, after);
    assert_eq!(
        fs::read_dir(sandbox.plugins()).unwrap().count(),
        PLUGINS.len()
    );
}

#[test]
fn cargo_xtask_install_swaps_the_plugins_under_running_containers() {
    needs!("dist");
    let sandbox = Sandbox::default();
    let plugins = sandbox.plugins();
    let install = |more: &[&str]| {
        let mut install = cargo_by_hand();
        install.args(["xtask", "install"]).arg(&plugins).args(more);
        let output = install.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    meanwhile(&sandbox, || {
        install(&["--verbose-flavour"]);
        install(&[]);
    });
    assert_installed(&plugins, Flavour::Normal);
    meanwhile(&sandbox, || install(&["--verbose-flavour"]));
    assert_installed(&plugins, Flavour::Verbose);
}

#[test]
fn between_two_steps_of_a_swap_old_and_new_plugins_work_together() {
    needs!("dist");
    for (old, new) in [
        (Flavour::Normal, Flavour::Verbose),
        (Flavour::Verbose, Flavour::Normal),
    ] {
        let sandbox = Sandbox::default();
        let folder = |name: &str, flavour: Flavour| {
            let folder = sandbox.root().join(name);
            fs::create_dir(&folder).unwrap();
            Release::of(flavour).extract(&folder).join("bin")
        };
        let (old, new) = (folder("old", old), folder("new", new));
        let place = |from: &Path, plugin: &str| {
            fs::rename(from.join(plugin), sandbox.plugins().join(plugin)).unwrap();
        };
        for plugin in PLUGINS {
            place(&old, plugin);
        }
        for plugin in PLUGINS {
            place(&new, plugin);
            a_container_comes_and_goes(&sandbox, "c");
        }
    }
}
