//! Container runtimes of the nodes: configuration, start, and loading of images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::pod_image::POD_IMAGE;
use crate::REFERENCE_PLUGINS;
use crate::kubernetes_programs;

/// A container runtime with reference plugins of the same age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRuntime {
    /// containerd 2.3 and the reference plugins 1.9.
    Containerd,
    /// Debian's containerd 1.6, runc 1.1 and reference plugins 1.1.
    OldContainerd,
    /// CRI-O 1.37 and the reference plugins 1.9.
    Crio,
}

impl ContainerRuntime {
    /// The requirements of the runtime for [`needs!`](crate::needs).
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Containerd => &[],
            Self::OldContainerd => &["/usr/bin/containerd", "/usr/sbin/runc", "bridge"],
            Self::Crio => &["/usr/bin/conmon", "/usr/bin/podman", "/usr/bin/jq"],
        }
    }

    /// The socket of its CRI.
    pub fn socket(self) -> &'static str {
        match self {
            Self::Containerd | Self::OldContainerd => "/run/containerd/containerd.sock",
            Self::Crio => "/run/crio/crio.sock",
        }
    }

    /// `PATH` on its nodes.
    pub(super) fn path(self) -> String {
        let debian = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        match self {
            Self::OldContainerd => debian.to_owned(),
            Self::Containerd | Self::Crio => {
                format!("{}:{debian}", kubernetes_programs().unwrap().display())
            }
        }
    }

    /// The folder of the reference plugins.
    pub(super) fn network_plugins(self) -> PathBuf {
        match self {
            Self::OldContainerd => PathBuf::from(REFERENCE_PLUGINS),
            Self::Containerd | Self::Crio => kubernetes_programs().unwrap(),
        }
    }

    pub(super) fn command_line(self) -> String {
        match self {
            Self::Containerd => "containerd --config /etc/containerd-test.toml".to_owned(),
            Self::OldContainerd => {
                "/usr/bin/containerd --config /etc/containerd-test.toml".to_owned()
            }
            Self::Crio => "crio --config /etc/crio-test.conf --config-dir ''".to_owned(),
        }
    }

    /// The command line that loads an image.
    pub(super) fn load(self, archive: &Path) -> String {
        let archive = archive.display();
        match self {
            Self::Containerd | Self::OldContainerd => {
                format!("ctr --namespace k8s.io images import {archive}")
            }
            Self::Crio => format!("podman load --input {archive}"),
        }
    }

    /// Writes its configuration on a node's disk.
    pub(super) fn configure(self, disk: &Path) {
        let etc = disk.join("etc");
        match self {
            Self::Containerd | Self::OldContainerd => {
                let configuration = containerd_configuration(snapshotter(disk));
                fs::write(etc.join("containerd-test.toml"), configuration).unwrap();
            }
            Self::Crio => {
                let runc = etc.join("runc-without-oom-score");
                crate::write_executable(&runc, RUNC_WITHOUT_OOM_SCORE);
                fs::write(etc.join("crio-test.conf"), crio_configuration()).unwrap();
                let containers = etc.join("containers");
                fs::create_dir_all(&containers).unwrap();
                fs::write(containers.join("storage.conf"), STORAGE).unwrap();
                fs::write(containers.join("policy.json"), POLICY).unwrap();
            }
        }
    }
}

/// containerd's way to make the files of containers on this disk. A native snapshot is a copy of the
/// image, which some file systems need, such as an overlay.
fn snapshotter(disk: &Path) -> &'static str {
    let lower = disk.join("lower");
    fs::create_dir_all(&lower).unwrap();
    let script = "mount -t overlay none -o lowerdir=$0,upperdir=$1,workdir=$2 $0";
    let folders = ["upper", "work"].map(|name| disk.join(name));
    folders
        .iter()
        .for_each(|folder| fs::create_dir_all(folder).unwrap());
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script]);
    let mounted = unshare.arg(lower).args(folders).output().unwrap();
    if mounted.status.success() {
        "overlayfs"
    } else {
        "native"
    }
}

fn containerd_configuration(snapshotter: &str) -> String {
    format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{POD_IMAGE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
"#
    )
}

/// Some machines forbid lowering `oom_score_adj`, which CRI-O requests.
const RUNC_WITHOUT_OOM_SCORE: &str = r#"#!/bin/bash
while read -r word; do bundle=$word; done < <(printf '%s\n' "$@" | sed -n '/^--bundle$/{n;p}')
if [ -n "${bundle-}" ] && [ -e "$bundle/config.json" ]; then
    jq -c '.process.oomScoreAdj = 0 | del(.linux.resources.hugepageLimits)' "$bundle/config.json" > "$bundle/config.json.new"
    mv "$bundle/config.json.new" "$bundle/config.json"
fi
exec runc "$@"
"#;

const STORAGE: &str = r#"[storage]
driver = "vfs"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
"#;

const POLICY: &str = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;

fn crio_configuration() -> String {
    let pinns = kubernetes_programs().unwrap().join("pinns");
    format!(
        r#"[crio]
storage_driver = "vfs"
root = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
[crio.api]
listen = "/run/crio/crio.sock"
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
default_runtime = "runc"
pinns_path = "{pinns}"
namespaces_dir = "/run"
[crio.runtime.runtimes.runc]
runtime_path = "/etc/runc-without-oom-score"
runtime_root = "/run/runc"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{POD_IMAGE}"
pause_command = ""
signature_policy = "/etc/containers/policy.json"
[crio.network]
network_dir = "/etc/cni/net.d"
plugin_dirs = ["/opt/cni/bin"]
"#,
        pinns = pinns.display()
    )
}
