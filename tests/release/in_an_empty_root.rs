//! Released plugins in an empty root: no libraries, no `/proc`, no `/dev`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use harness::{
    Call, Flavour, IPAM_DELEGATED, Output, PLUGINS, Release, Sandbox, answer_of, names, needs,
};
use serde_json::{Value, json};

/// A root with the plugins in `/bin`.
fn root(sandbox: &Sandbox, flavour: Flavour) -> PathBuf {
    let top = Release::of(flavour).extract(sandbox.root());
    let root = sandbox.root().join("empty");
    fs::create_dir(&root).unwrap();
    fs::rename(top.join("bin"), root.join("bin")).unwrap();
    root
}

fn call(root: &Path, plugin: &str, command: &str, config: &Value) -> Output {
    Call::new(Path::new("/bin").join(plugin))
        .through(&["chroot", root.to_str().unwrap()])
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", "c1")
        .env("CNI_NETNS", "/run/netns/c1")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", "/bin")
        .env("IPAM_DELEGATED_LOG_DIR", "/log")
        .stdin(serde_json::to_vec(config).unwrap())
        .run()
}

/// The IDs of the processes that wrote a plugin's log. Only the first `pid=` of a line is the
/// writer's; a later one may be quoted from another process.
fn processes(root: &Path, plugin: &str) -> BTreeSet<String> {
    let log = harness::log(&root.join("log"), plugin);
    let ids = log.lines().map(|line| {
        let (_, rest) = line.split_once("pid=").unwrap();
        rest.split('}').next().unwrap().to_owned()
    });
    ids.collect()
}

#[test]
fn a_released_chain_runs_from_add_to_del_where_nothing_else_is() {
    needs!("root", "dist");
    for flavour in [Flavour::Normal, Flavour::Verbose] {
        let sandbox = Sandbox::default();
        let root = root(&sandbox, flavour);
        let mut config = json!({"cniVersion": "1.1.0", "name": "testnet", "ipam": {
            "type": "ipam-delegated",
            "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
            "dataDir": "/data", "stateDir": "/state",
            "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]
        }});
        for plugin in PLUGINS {
            let versions = call(&root, plugin, "VERSION", &config).result();
            assert_eq!(versions["cniVersion"], "1.1.0");
        }
        call(&root, "ipam-delegated", "STATUS", &config).nothing();
        let added = call(&root, "ipam-delegated", "ADD", &config);
        assert_eq!(added.stderr, "");
        let result = added.result();
        assert_eq!(answer_of(&result), ["10.1.0.2", "fd00:1::2"]);
        assert!(root.join("data/testnet/10.1.0.2").exists());
        config["prevResult"] = result;
        call(&root, "ipam-delegated", "CHECK", &config).nothing();
        call(&root, "ipam-delegated", "DEL", &config).nothing();
        assert!(!root.join("data/testnet/10.1.0.2").exists());
        call(&root, "ipam-delegated", "CHECK", &config).error();

        if flavour == Flavour::Verbose {
            // Without /proc, a plugin can't determine that a delegate is the same file, so it
            // executes it.
            let processes_of = |plugin| processes(&root, plugin);
            let chain = processes_of(IPAM_DELEGATED);
            let [selector, allocator] = ["ipam-ds-ranges", "ipam-da-host-local"].map(processes_of);
            assert!(chain.is_disjoint(&selector), "{chain:?} {selector:?}");
            assert!(chain.is_disjoint(&allocator), "{chain:?} {allocator:?}");
        }
        let mut left = names(&root);
        left.retain(|name| name != "log");
        assert_eq!(left, ["bin", "data", "state"]);
    }
}
