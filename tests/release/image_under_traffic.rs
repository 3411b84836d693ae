//! One version replaces another by the image's own files while sixteen callers ADD and DEL
//! without a pause.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Call, Flavour, INSTALLER, Image, PLUGINS, Sandbox, needs, one_inode};

use crate::traffic::{a_container_comes_and_goes, meanwhile_by};

/// Number of concurrent callers.
const CALLERS: usize = 16;

/// The releases' version, and another one of the same length.
const VERSIONS: [&str; 2] = [env!("CARGO_PKG_VERSION"), "0.0.9"];

/// The files of an image, and a copy with another version.
fn releases(sandbox: &Sandbox, flavour: Flavour) -> [PathBuf; 2] {
    let folders = VERSIONS.map(|version| sandbox.root().join(format!("{flavour:?}-{version}")));
    let [this, other] = &folders;
    Image::of(flavour).files(this);
    Image::of(flavour).files(other);
    let [from, to] = VERSIONS.map(str::as_bytes);
    assert_eq!(from.len(), to.len());
    let plugin = other.join("plugins").join(PLUGINS[0]);
    let mut content = fs::read(&plugin).unwrap();
    let places: Vec<usize> = content
        .windows(from.len())
        .enumerate()
        .filter_map(|(at, it)| (it == from).then_some(at))
        .collect();
    for at in places {
        content[at..at + to.len()].copy_from_slice(to);
    }
    // All plugins are links to one file.
    fs::write(&plugin, content).unwrap();
    folders
}

fn install(sandbox: &Sandbox, release: &Path) {
    let word = |name: &str, path: &Path| format!("--{name}={}", path.display());
    Call::new(release.join(INSTALLER))
        .args([word("from", release), word("plugins", &sandbox.plugins())])
        .args(["--once"])
        .run()
        .nothing();
}

#[test]
fn versions_and_flavours_replace_each_other_under_sixteen_callers() {
    needs!("dist");
    let sandbox = Sandbox::default();
    let [normal, verbose] =
        [Flavour::Normal, Flavour::Verbose].map(|flavour| releases(&sandbox, flavour));
    // The sandbox has links to the plugins of a build; they are replaced.
    for plugin in PLUGINS {
        fs::remove_file(sandbox.plugins().join(plugin)).unwrap();
    }
    install(&sandbox, &normal[0]);
    let version = || {
        let output = Call::new(sandbox.plugins().join(PLUGINS[0]))
            .args(["--version"])
            .run();
        output.stdout
    };
    meanwhile_by(&sandbox, CALLERS, || {
        for [this, other] in [&normal, &verbose, &normal] {
            for release in [this, other, this] {
                install(&sandbox, release);
                let other_version = release == other;
                assert_eq!(
                    version().contains(VERSIONS[1]),
                    other_version,
                    "{}",
                    version()
                );
            }
        }
    });
    one_inode(&sandbox.plugins());
    a_container_comes_and_goes(&sandbox, "last");
    assert!(sandbox.records("testnet").is_empty());
}
