//! The API server is unreachable, silent, or requires a new token; the node's folders are damaged.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use harness::{ApiProxy, KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

/// A cluster with one pool, and a node's configuration.
fn with_pool() -> (ApiCluster, Value) {
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let config = shared.config("n1", &shared.addresses(), &json!([{"name": "red"}]));
    (cluster, config)
}

fn shared(cluster: &ApiCluster) -> &dyn PoolCluster {
    cluster
}

#[test]
fn an_api_server_that_is_away_or_silent_is_named_and_nothing_is_lost() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    type Event = fn(&mut ApiCluster);
    let events: [(&str, Event, Event); 3] = [
        (
            "stopped",
            |cluster| cluster.api.stop_api_server(),
            |cluster| cluster.api.start_api_server(),
        ),
        (
            "silent",
            |cluster| cluster.api.pause_api_server(),
            |cluster| cluster.api.continue_api_server(),
        ),
        (
            "without its etcd",
            |cluster| cluster.api.pause_etcd(),
            |cluster| cluster.api.continue_etcd(),
        ),
    ];
    let (mut cluster, config) = with_pool();
    shared(&cluster).add("a", &config).result();
    for (name, begin, end) in events {
        println!("{name}");
        // DEL has the configuration of the ADD, so it waits that long.
        let briefly = shared(&cluster).within("6s", &config);
        shared(&cluster).add("b", &briefly).result();
        let held = cluster.held();
        begin(&mut cluster);
        let impatient = shared(&cluster).within("1s", &config);
        for (command, container, code) in [("ADD", "c", 11), ("DEL", "b", 11), ("STATUS", "", 50)] {
            let output = shared(&cluster).call(command, container, &impatient).run();
            output.refused(code, "Kubernetes' API");
        }
        end(&mut cluster);
        // Requests that were sent meanwhile may be executed now.
        shared(&cluster).del("c", &config).nothing();
        cluster.api.wait_for("GC to leave what lives", || {
            let gc = shared(&cluster).gc(&["a", "b"], &config);
            let now = cluster.held();
            let is_subset = now.iter().all(|held_now| held.contains(held_now));
            gc.status.success() && is_subset
        });
        shared(&cluster).del("b", &config).nothing();
        assert_eq!(cluster.reserved("red").len(), 1);
        shared(&cluster).add("c", &config).result();
        shared(&cluster).del("c", &config).nothing();
    }
}

#[test]
fn a_token_that_is_renewed_is_used_by_the_next_call() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let (cluster, config) = with_pool();
    shared(&cluster).add("a", &config).result();
    let kubeconfig = config["ipam"]["kubernetes"]["kubeconfig"].as_str().unwrap();
    let renewed = fs::read_to_string(kubeconfig).unwrap();
    let mut old: Value = serde_json::from_str(&renewed).unwrap();
    old["users"][0]["user"]["token"] = json!("expired");
    fs::write(kubeconfig, old.to_string()).unwrap();
    for (command, container) in [("ADD", "b"), ("DEL", "a")] {
        let output = shared(&cluster).call(command, container, &config).run();
        output.refused(113, "have expired");
    }
    fs::write(kubeconfig, renewed).unwrap();
    shared(&cluster).del("a", &config).nothing();
    shared(&cluster).del("b", &config).nothing();
    shared(&cluster).add("b", &config).result();
    assert_eq!(cluster.reserved("red").len(), 1);
}

#[test]
fn folders_that_are_missing_emptied_or_unusable_lose_no_address() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let (cluster, config) = with_pool();
    let of_node = cluster.sandbox.root().join("n1");
    shared(&cluster).add("first", &config).result();
    shared(&cluster).del("first", &config).nothing();
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    let index = of_node.join("engine-state/held_n1");
    // The name has a hash of the kubeconfig's path.
    let is_view = |path: &PathBuf| path.to_string_lossy().contains("/view_");
    let view = entries(&of_node.join("cache")).find(is_view).unwrap();
    let remove = |path: &Path| {
        let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
    };
    type Damage<'d> = (&'static str, &'d dyn Fn());
    let damages: [Damage<'_>; 3] = [
        ("missing", &|| {
            remove(&index);
            remove(&view);
        }),
        ("a file instead", &|| {
            for folder in [&index, &view] {
                remove(folder);
                fs::write(folder, "").unwrap();
            }
        }),
        ("of another user", &|| {
            for folder in [&index, &view] {
                fs::create_dir_all(folder).unwrap();
                chown(folder, Some(65534), Some(65534)).unwrap();
            }
        }),
    ];
    for (name, damage) in damages {
        shared(&cluster).add("before", &config).result();
        damage();
        let alone = |command: &str, container: &str| {
            shared(&cluster).alone("ipam-da-kubernetes", command, container, &config)
        };
        assert_eq!(alone("ADD", "before").code(), 110, "{name}");
        let after = shared(&cluster).add("after", &config);
        if name.starts_with("missing") {
            after.result();
            assert_eq!(cluster.reserved("red").len(), 2, "{name}");
        } else {
            // An address that can't be noted isn't created.
            after.refused(5, index.to_str().unwrap());
            assert_eq!(cluster.reserved("red").len(), 1, "{name}");
        }
        for container in ["before", "after"] {
            shared(&cluster).del(container, &config).nothing();
        }
        assert!(cluster.held().is_empty(), "{name}: {:?}", cluster.held());
        remove(&index);
        remove(&view);
    }
    // GC asks the API server, so it finds an address without a note.
    shared(&cluster).add("noted", &config).result();
    let of_boot = entries(&index).next().unwrap();
    for attachment in entries(&of_boot).filter(|path| path.is_dir()) {
        fs::remove_dir_all(attachment).unwrap();
    }
    shared(&cluster).gc(&[], &config).nothing();
    let gc = shared(&cluster).alone("ipam-da-kubernetes", "GC", "", &config);
    gc.nothing();
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

#[test]
fn a_network_with_two_configurations_has_one_list_of_the_nodes_addresses() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let (cluster, config) = with_pool();
    let mut other = config.clone();
    other["ipam"]["kubernetes"]["cacheDir"] = json!(cluster.sandbox.root().join("n1/other-cache"));
    let alone = |command: &str, container: &str, config: &Value| {
        shared(&cluster).alone("ipam-da-kubernetes", command, container, config)
    };
    for container in ["first", "second", "third"] {
        alone("ADD", container, &config).result();
        alone("DEL", container, &other).nothing();
        assert!(cluster.held().is_empty(), "{:?}", cluster.held());
    }
}

#[test]
fn locks_of_the_view_that_a_stopped_process_holds_keep_nobody_from_an_address() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    let pools = ["red", "blue"].map(|pool| json!({"name": pool}));
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.2.0.0/24"}));
    let config = shared.config("n1", &shared.addresses(), &json!(pools));
    shared.add("a", &config).result();
    let of_node = shared.sandbox().root().join("n1");
    let mut folders = vec![of_node.join("cache"), of_node.join("engine-state/held_n1")];
    let mut locked = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            let file = File::open(&path).unwrap();
            file.lock().unwrap();
            locked.push(file);
        }
    }
    let config = shared.within("3s", &config);
    shared.add("b", &config).result();
    for container in ["a", "b"] {
        shared.del(container, &config).nothing();
    }
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

#[test]
fn a_del_with_the_kubeconfig_of_another_cluster_is_no_success() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    shared(&cluster).define("lan", &json!({"subnet": "10.1.0.0/24"}));
    let pools = json!([{"name": "lan"}]);
    let addresses = shared(&cluster).addresses();
    let config = shared(&cluster).config("n1", &addresses, &pools);
    let another = shared(&cluster).config_on("another", "n1", &addresses, &pools);
    // The other cluster: another URL, and a state that doesn't know the node, or only another
    // machine with its name.
    let other = cluster.api.snapshot();
    shared(&cluster).add("a", &config).result();
    let own = cluster.api.snapshot();
    cluster.api.restore(&other);
    let kubeconfig = Path::new(config["ipam"]["kubernetes"]["kubeconfig"].as_str().unwrap());
    let of_own = fs::read(kubeconfig).unwrap();
    fs::copy(proxy.kubeconfig_like(&cluster.api, kubeconfig), kubeconfig).unwrap();
    let refused = shared(&cluster).del("a", &config);
    refused.refused(7, "this node has used another cluster");
    shared(&cluster)
        .gc(&[], &config)
        .refused(7, "ipamnodes.ipam-delegated.io/n1");
    shared(&cluster).add("b", &another).result();
    let refused = shared(&cluster).del("a", &config);
    refused.refused(7, "this node has used another cluster");
    fs::write(kubeconfig, of_own).unwrap();
    cluster.api.restore(&own);
    shared(&cluster).del("a", &config).nothing();
    assert!(cluster.held().is_empty());
}
