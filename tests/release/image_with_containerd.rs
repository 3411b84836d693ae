//! The image under containerd.

use std::fs;

use harness::{Flavour, Image, ORCHESTRATOR, PLUGINS, needs, network_plugins, one_inode};
use serde_json::json;

use harness::Containerd;

/// The namespace of the kubelet's containers.
const NAMESPACE: &str = "k8s.io";

#[test]
fn containerd_imports_the_images_and_they_install_and_upgrade() {
    needs!("dist");
    let Some(containerd) = Containerd::new(&json!([])) else {
        return;
    };
    let plugins = containerd.sandbox.root().join("opt-cni/bin");
    fs::create_dir_all(&plugins).unwrap();
    let mount = format!(
        "type=bind,src={},dst=/opt/cni/bin,options=rbind:rw",
        plugins.display()
    );
    for (flavour, said) in [
        (Flavour::Normal, ", normal)"),
        (Flavour::Verbose, ", verbose)"),
    ] {
        let image = Image::of(flavour);
        let file = image.file.to_str().unwrap();
        containerd.must(
            NAMESPACE,
            &["images", "import", "--snapshotter=native", file],
        );
        let names = containerd.must(NAMESPACE, &["images", "ls", "--quiet"]);
        assert!(names.lines().any(|name| name == image.name), "{names}");
        let cgroup = format!("{}/install", containerd.cgroup.path());
        let run = [
            "run",
            "--rm",
            "--null-io",
            "--snapshotter=native",
            "--cgroup",
            &cgroup,
        ];
        let words = [
            "--mount",
            &mount,
            &image.name,
            "install",
            "/ipam-installer",
            "--once",
        ];
        containerd.must(NAMESPACE, &[&run[..], &words].concat());
        one_inode(&plugins);
        let version = std::process::Command::new(plugins.join(ORCHESTRATOR))
            .arg("--version")
            .output();
        let version = String::from_utf8(version.unwrap().stdout).unwrap();
        assert!(version.contains(said), "{version}");
    }
    let expected = PLUGINS.len() + network_plugins().count();
    assert_eq!(fs::read_dir(&plugins).unwrap().count(), expected);
}
