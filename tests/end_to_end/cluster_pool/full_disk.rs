//! A folder of a node is on a full disk, or can't be used: an address that can't be noted isn't
//! given, and held addresses are released.

use std::fs;
use std::path::PathBuf;

use harness::{ApiProxy, KUBECTL, KUBERNETES_PROGRAMS, Node, Output, needs};
use serde_json::{Value, json};

use super::administered::{Administered, ip_of};

const DELEGATES: [&str; 1] = ["ipam-da-kubernetes"];

/// Folders of a node, each on a separate disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Folder {
    CacheDir,
    /// The view of the pools, in `cacheDir`.
    View,
    StateDir,
}

/// The resource that a disk has run out of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Full {
    Bytes,
    Files,
}

/// A cluster behind a proxy, with a node whose folders can be put on small disks.
struct OnDisks {
    cluster: Administered,
    proxy: ApiProxy,
    node: Node,
    config: Value,
}

impl OnDisks {
    fn new() -> Self {
        let cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.40.0.0/24"}}));
        let proxy = ApiProxy::start(&cluster.api);
        let mut config = cluster.config("n1", &DELEGATES, "lan");
        let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
        config["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
        let kept = json!({"containerID": "kept", "ifname": "eth0"});
        config["cni.dev/valid-attachments"] = json!([kept]);
        Self {
            cluster,
            proxy,
            node: Node::new(),
            config,
        }
    }

    fn call(&self, command: &str, container: &str) -> Output {
        let call = self
            .cluster
            .sandbox
            .call("ipam-delegated", command, &self.config);
        let entrance = self.node.entrance_of_mounts();
        let words: Vec<&str> = entrance.iter().map(String::as_str).collect();
        call.container(container).through(&words).run()
    }

    /// The addresses that nodes hold, without the names of their pool.
    fn held(&self) -> Vec<String> {
        let names = self.cluster.addresses().into_iter();
        let ip = |name: String| name.strip_prefix("lan.").unwrap().to_owned();
        names.map(ip).collect()
    }

    /// Number of addresses that calls have requested to create since the last call of this
    /// function.
    fn creations(&self) -> usize {
        let requests = self.proxy.take_requests();
        let creates = |path: &str| path.contains("/addresses") && !path.contains("dryRun");
        let created = requests
            .iter()
            .filter(|request| request.method == "POST" && creates(&request.path));
        created.count()
    }

    /// A new machine with this name: its folders are empty, and the cluster has none of its
    /// objects.
    fn empty(&self) {
        let objects = "ipamnodes.ipam-delegated.io,addresses.ipam-delegated.io";
        self.cluster.api.kubectl(&["delete", objects, "--all"]);
        let _ = fs::remove_dir_all(self.cluster.sandbox.root().join("n1"));
    }

    fn path(&self, folder: Folder) -> PathBuf {
        let of_node = self.cluster.sandbox.root().join("n1");
        match folder {
            Folder::CacheDir => of_node.join("cache"),
            Folder::StateDir => of_node.join("kubernetes-state"),
            Folder::View => {
                let all = fs::read_dir(of_node.join("cache")).unwrap();
                let mut paths = all.map(|entry| entry.unwrap().path());
                let is_view = |path: &PathBuf| path.to_string_lossy().contains("/view_");
                paths.find(is_view).unwrap()
            }
        }
    }

    /// Puts a folder with its files on a disk.
    fn mount(&self, folder: Folder) {
        let path = self.path(folder);
        fs::create_dir_all(&path).unwrap();
        let path = path.display();
        self.node.sh(&format!(
            "cp -a {path} /run/copy
            mount -t tmpfs -o size=1m,nr_inodes=200,mode=700 none {path}
            cp -a /run/copy/. {path}
            rm -r /run/copy"
        ));
    }

    fn fill(&self, folder: Folder, full: Full) {
        let fill = match full {
            Full::Bytes => "head -c 2M /dev/zero > fill 2>/dev/null || :",
            Full::Files => "for i in $(seq 300); do mkdir fill-$i 2>/dev/null || break; done",
        };
        let path = self.path(folder);
        self.node.sh(&format!("cd {}; {fill}", path.display()));
    }

    fn make_room(&self, folder: Folder) {
        let path = self.path(folder);
        self.node.sh(&format!("rm -rf {}/fill*", path.display()));
    }

    fn unmount(&self, folder: Folder) {
        let path = self.path(folder);
        self.node.sh(&format!("umount {}", path.display()));
    }
}

/// Checks that STATUS and ADD agree. A refused ADD names the folder and has created nothing.
#[track_caller]
fn add_and_status_agree(of: &OnDisks, is_given: bool, why: &str) {
    let status = of.call("STATUS", "");
    assert_eq!(status.status.success(), is_given, "{status:?}");
    of.creations();
    let added = of.call("ADD", "new");
    if is_given {
        added.result();
        return;
    }
    added.refused(5, why);
    added.refused(5, "No space left on device");
    status.refused(50, why);
    assert_eq!(of.creations(), 0);
}

#[test]
fn on_a_full_disk_what_cant_be_noted_isnt_given_and_what_is_held_is_released() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let of = OnDisks::new();
    for (folder, full, is_given) in [
        (Folder::CacheDir, Full::Files, true),
        (Folder::CacheDir, Full::Bytes, true),
        (Folder::View, Full::Files, true),
        (Folder::View, Full::Bytes, true),
        (Folder::StateDir, Full::Files, false),
        // A note is an empty file, which needs no block.
        (Folder::StateDir, Full::Bytes, true),
    ] {
        println!("{folder:?} {full:?}");
        of.empty();
        let kept = ip_of(&of.call("ADD", "kept"));
        let gone = ip_of(&of.call("ADD", "gone"));
        of.call("ADD", "ended").result();
        of.mount(folder);
        of.fill(folder, full);
        add_and_status_agree(
            &of,
            is_given,
            &format!("{}/held_n1/", of.path(folder).display()),
        );
        of.call("DEL", "new").nothing();
        of.call("DEL", "ended").nothing();
        let mut both = [kept.clone(), gone];
        both.sort();
        assert_eq!(of.held(), both);
        of.call("GC", "").nothing();
        assert_eq!(of.held(), [kept.as_str()]);

        of.make_room(folder);
        of.call("ADD", "new").result();
        of.call("DEL", "new").nothing();
        of.call("DEL", "kept").nothing();
        assert!(of.held().is_empty(), "{:?}", of.held());
        of.unmount(folder);
    }
}

#[test]
fn a_node_whose_disk_is_full_from_the_beginning_gives_nothing() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let of = OnDisks::new();
    for (folder, full, file) in [
        (
            Folder::CacheDir,
            Full::Files,
            "registered_kubernetes_n1.json",
        ),
        (
            Folder::CacheDir,
            Full::Bytes,
            "registered_kubernetes_n1.json",
        ),
        (Folder::StateDir, Full::Files, "token_kubernetes_n1.json"),
        (Folder::StateDir, Full::Bytes, "token_kubernetes_n1.json"),
    ] {
        println!("{folder:?} {full:?}");
        of.empty();
        of.mount(folder);
        of.fill(folder, full);
        add_and_status_agree(
            &of,
            false,
            &of.path(folder).join(file).display().to_string(),
        );
        of.call("DEL", "new").nothing();
        of.call("GC", "").nothing();
        of.make_room(folder);
        of.call("ADD", "new").result();
        of.call("DEL", "new").nothing();
        assert!(of.held().is_empty(), "{:?}", of.held());
        of.unmount(folder);
    }
}

#[test]
fn an_add_that_cant_use_the_index_gives_nothing_that_a_later_del_would_miss() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let of = OnDisks::new();
    of.call("ADD", "kept").result();
    of.call("ADD", "ended").result();
    let index = of.path(Folder::StateDir).join("held_n1");
    let away = index.with_extension("away");
    fs::rename(&index, &away).unwrap();
    fs::write(&index, "").unwrap();
    of.creations();
    of.call("ADD", "new").refused(5, index.to_str().unwrap());
    of.call("STATUS", "").refused(50, index.to_str().unwrap());
    assert_eq!(of.creations(), 0);
    // Without the index, DEL asks the API server.
    of.call("DEL", "ended").nothing();
    assert_eq!(of.held().len(), 1);
    fs::remove_file(&index).unwrap();
    fs::rename(&away, &index).unwrap();
    of.call("DEL", "new").nothing();
    assert_eq!(of.held().len(), 1);
}
