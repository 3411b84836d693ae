//! The Debian package in a root of its own, whose plugins podman runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{IPAM_DELEGATED, IPAMCTL, PLUGINS, Podman, dist, needs};
use serde_json::json;

/// Runs dpkg in this root.
#[track_caller]
fn dpkg(root: &Path, arguments: &[&str]) {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display()));
    dpkg.args(["--force-script-chrootless", "--log=/dev/null"]);
    let output = dpkg.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Replaces a text in a file.
fn replace(file: &Path, from: &Path, to: &Path) {
    let [from, to] = [from, to].map(|path| path.to_str().unwrap());
    let content = fs::read_to_string(file).unwrap();
    assert!(content.contains(from), "{content}");
    fs::write(file, content.replace(from, to)).unwrap();
}

#[test]
fn podman_runs_the_plugins_of_the_package_and_a_purge_keeps_what_a_container_has() {
    needs!("dist", "/usr/bin/dpkg-deb");
    let Some(podman) = Podman::new(&json!([{"pools": ["web"]}])) else {
        return;
    };
    let sandbox = &podman.sandbox;
    let [root, configuration] = ["installed", "net.d"].map(|name| sandbox.root().join(name));
    fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let files = fs::read_dir(dist().unwrap()).unwrap();
    let mut names = files.map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    let package = names.find(|name| name.ends_with(".deb") && !name.contains("-verbose_"));
    let package = package.expect("a package");
    let [plugins, tool] = ["usr/lib/cni", "usr/sbin"].map(|folder| root.join(folder));
    let state = root.join("var/lib/cni");
    let record_folder = state.join("ipam-delegated");
    let conf = sandbox.root().join("containers.conf");
    replace(&conf, &sandbox.plugins(), &plugins);
    let conflist = configuration.join("testnet.conflist");
    replace(&conflist, &sandbox.data_dir(), &state.join("networks"));
    replace(&conflist, &sandbox.state_dir(), &record_folder);

    dpkg(&root, &["--install", &package]);
    let unit = root.join("lib/systemd/system/ipamctl-gc.service");
    let unit = fs::read_to_string(unit).unwrap();
    assert!(unit.contains("=/usr/sbin/ipamctl "), "{unit}");
    let container = podman.start("web-1");
    assert_eq!(podman.address("web-1"), "10.77.1.10/16");
    let mut ls = Command::new(tool.join(IPAMCTL));
    ls.arg("--conf-dir").arg(&configuration).arg("ls");
    let listed = String::from_utf8(ls.output().unwrap().stdout).unwrap();
    assert!(listed.contains("10.77.1.10"), "{listed}");

    dpkg(&root, &["--purge", "ipam-delegated"]);
    let is_there = |plugin: &str| plugins.join(plugin).exists();
    assert!(!PLUGINS.into_iter().any(is_there) && !tool.join(IPAMCTL).exists());
    let reservation = state.join("networks/pools/10.77.1.10");
    let record = record_folder.join(format!("testnet/{container}:eth0.json"));
    assert!(reservation.exists() && record.exists());

    dpkg(&root, &["--install", &package]);
    assert!(is_there(IPAM_DELEGATED));
    podman.must(&["rm", "--force", "--time=0", "web-1"]);
    assert!(!reservation.exists());
    dpkg(&root, &["--purge", "ipam-delegated"]);
    assert!(!record_folder.exists() && state.join("networks").exists());
}
