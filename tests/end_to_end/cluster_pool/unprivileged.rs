//! Any umask, and a user without privileges on the node.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::json;

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

/// A shell command of a user without privileges.
fn unprivileged(command: &str) -> Command {
    let mut process = Command::new("setpriv");
    process.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    process.args(["/bin/sh", "-c", command]);
    process
}

/// True if a user without privileges can do it.
fn as_nobody(command: &str) -> bool {
    unprivileged(command).output().unwrap().status.success()
}

/// Lets everybody read a folder and those above it.
fn make_readable(folder: &Path) {
    let own = folder
        .ancestors()
        .take_while(|folder| *folder != Path::new("/tmp"));
    for folder in own {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// All files and folders below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(below(&path));
        }
        all.push(path);
    }
    all
}

#[test]
fn with_any_umask_nobody_else_reads_writes_or_locks_the_files_of_a_node() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.0.0.0/24", "block": 28}));
    let root = cluster.sandbox.root();
    for (node, umask) in [("n1", "0"), ("n2", "0777")] {
        fs::create_dir_all(root.join(node)).unwrap();
        // Only the permissions of the plugins' own folders are to protect their files.
        make_readable(&root.join(node));
        for folder in ["cache", "engine-state"] {
            assert!(!root.join(node).join(folder).exists());
        }
        let addresses = shared.config(node, &shared.addresses(), &json!([{"name": "red"}]));
        let blocks = shared.config(node, &shared.in_blocks(), &json!([{"name": "blue"}]));
        let call = |command: &str, container: &str, config| {
            let script = format!("umask {umask}; exec \"$0\"");
            let call = shared.call(command, container, config);
            call.through(&["/bin/sh", "-c", &script]).run()
        };
        call("ADD", "a", &addresses).result();
        call("ADD", "b", &blocks).result();
        let mut seen = 0;
        for folder in ["cache", "engine-state"].map(|folder| root.join(node).join(folder)) {
            let shown = folder.display();
            for attack in [
                format!("ls {shown}"),
                format!("flock --nonblock {shown} true"),
                format!("mkfifo {shown}/x"),
                format!("ln -s /etc/passwd {shown}/x"),
                format!("mv {shown} {shown}-away"),
            ] {
                assert!(!as_nobody(&attack), "{attack}");
            }
            for path in below(&folder) {
                let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o077;
                assert_eq!(mode, 0, "{}", path.display());
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
        call("DEL", "a", &addresses).nothing();
        call("DEL", "b", &blocks).nothing();
    }
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

#[test]
fn a_cache_folder_of_another_user_is_not_written_to_and_not_believed() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let config = shared.config("n1", &shared.addresses(), &json!([{"name": "red"}]));
    shared.add("a", &config).result();
    let [theirs, victim] = ["theirs", "victim"].map(|name| cluster.sandbox.root().join(name));
    fs::create_dir(&victim).unwrap();
    fs::create_dir(&theirs).unwrap();
    let views = fs::read_dir(cluster.sandbox.root().join("n1/cache")).unwrap();
    for planted in views.map(|entry| entry.unwrap().file_name()) {
        symlink(&victim, theirs.join(planted)).unwrap();
    }
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    let mut other = config.clone();
    other["ipam"]["kubernetes"]["cacheDir"] = json!(theirs);
    shared.del("b", &other).nothing();
    shared.del("a", &other).nothing();
    assert_eq!(below(&victim), [""; 0].map(PathBuf::from));
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

#[test]
fn a_user_who_locks_the_folders_that_everybody_may_read_keeps_nobody_from_an_address() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.0.0.0/24", "block": 28}));
    let root = cluster.sandbox.root();
    // As by an administrator with mkdir.
    let folders =
        ["cache", "engine-state", "engine-state/blocks"].map(|name| root.join("n1").join(name));
    for folder in &folders {
        fs::create_dir_all(folder).unwrap();
        make_readable(folder);
    }
    let mut locks = folders.map(|folder| {
        let locked = format!("exec flock --no-fork {} sleep 60", folder.display());
        unprivileged(&locked).spawn().unwrap()
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    for folder in ["cache", "engine-state", "engine-state/blocks"] {
        let folder = fs::File::open(root.join("n1").join(folder)).unwrap();
        assert!(folder.try_lock().is_err());
    }
    let addresses = shared.config("n1", &shared.addresses(), &json!([{"name": "red"}]));
    let blocks = shared.config("n1", &shared.in_blocks(), &json!([{"name": "blue"}]));
    for (container, config) in [("a", addresses), ("b", blocks)] {
        let config = shared.within("3s", &config);
        shared.add(container, &config).result();
        shared.del(container, &config).nothing();
    }
    for lock in &mut locks {
        lock.kill().unwrap();
        lock.wait().unwrap();
    }
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}
