//! The busybox image of the tests' pods, and of all pod sandboxes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::{Reason, make_rootfs};

/// Its name on the nodes.
pub const POD_IMAGE: &str = "localhost/pod:1";

/// Sleeps, and exits on SIGTERM: the first process of a PID namespace ignores signals that it
/// doesn't handle.
const SLEEP: &str = "trap 'exit 0' TERM INT; while :; do sleep 1000 & wait $!; done";

/// Creates an archive of the image in the folder, in the format of `docker save`.
pub(super) fn make(folder: &Path) -> Result<PathBuf, Reason> {
    let layout = folder.join("pod-image");
    make_rootfs(&layout.join("rootfs"))?;
    run(Command::new("tar")
        .arg("-cf")
        .arg(layout.join("layer.tar"))
        .arg("-C")
        .arg(layout.join("rootfs"))
        .arg("."));
    let layer = digest(&layout.join("layer.tar"));
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sh", "-c", SLEEP], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
    });
    let manifest = json!([
        {"Config": "config.json", "RepoTags": [POD_IMAGE], "Layers": ["layer.tar"]}
    ]);
    fs::write(layout.join("config.json"), config.to_string()).unwrap();
    fs::write(layout.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = folder.join("pod-image.tar");
    run(Command::new("tar")
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(&layout)
        .args(["manifest.json", "config.json", "layer.tar"]));
    Ok(archive)
}

fn digest(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let digest = text.split(' ').next().unwrap();
    digest.to_owned()
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}
