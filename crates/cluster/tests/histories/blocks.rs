//! Histories of blocks: concurrent claims of several nodes, with lost requests and answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use cluster::block::{self, BlockFiles};
use cluster::{BlockOwner, Key, Node};
use cni::{Call, Environment, NetworkConfig};
use serde_json::json;

use super::memory_engine::{Faults, MemoryEngine, Store};
use super::nodes;

/// ADD of a selector; GC with `valid-attachments`.
fn call(environment: &Environment) -> Call<'_> {
    let config = json!({
        "cniVersion": "1.1.0", "name": "net", "cni.dev/valid-attachments": [],
        "ipam": {"type": "x", "keepEmptyBlocks": "0s"},
        "prevResult": {"cniVersion": "1.1.0", "ips": [], "pools": [{"name": "blue"}]},
    });
    let config = NetworkConfig::parse(serde_json::to_vec(&config).unwrap()).unwrap();
    Call::new(config, environment)
}

/// The blocks in a node's file.
fn listed(node: &Node) -> Vec<(String, BlockOwner)> {
    let files = BlockFiles::open(node, PathBuf::new()).unwrap();
    let blocks = files
        .all()
        .unwrap()
        .into_iter()
        .flat_map(|file| file.blocks);
    blocks
        .map(|block| (block.cidr.to_string(), block.owner))
        .collect()
}

/// Claims blocks and gives them back, and reserves the first address of each block as
/// `ipam-da-host-local` would.
fn claim_on_end(store: &Store, node: &Node, data_dir: &Path, faults: Faults) {
    let environment = Environment::default();
    for seed in 0..40 {
        let engine = &mut MemoryEngine::new(store, faults, seed);
        let added = block::add(engine, node, data_dir, &call(&environment));
        if added.is_ok() && seed % 4 != 3 {
            for (cidr, _) in listed(node) {
                let first = cidr.split('/').next().unwrap().to_owned();
                let _ = fs::write(data_dir.join("blue").join(first), "c\r\neth0\nnet\n");
            }
        } else if seed % 8 == 7 {
            let _ = block::give_back(engine, node, data_dir, &call(&environment));
        }
    }
}

#[test]
fn no_block_is_claimed_by_two_nodes_and_a_nodes_file_has_only_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = nodes(folder.path());
    let store = Store::default();
    let pool = br#"{"subnet":"10.0.0.0/25","block":29}"#;
    store.put(Key::Pool("blue".to_owned()), pool);
    let faults = Faults {
        lost_requests: 5,
        lost_answers: 10,
        late: 0,
    };
    let data_dirs: Vec<_> = nodes
        .iter()
        .map(|node| folder.path().join(&node.name))
        .collect();
    thread::scope(|scope| {
        for (node, data_dir) in nodes.iter().zip(&data_dirs) {
            fs::create_dir_all(data_dir.join("blue")).unwrap();
            let store = &store;
            scope.spawn(move || claim_on_end(store, node, data_dir, faults));
        }
    });
    // Without faults, each node resolves the claims whose answers were lost.
    let environment = Environment::default();
    for (node, data_dir) in nodes.iter().zip(&data_dirs) {
        let engine = &mut MemoryEngine::new(&store, Faults::default(), 1);
        let known = block::give_back(engine, node, data_dir, &call(&environment));
        assert!(known.is_ok(), "{known:?}");
    }
    let mut owners: BTreeMap<String, BlockOwner> = BTreeMap::new();
    for (key, value) in store.objects() {
        if let Key::Block(_, cidr) = key {
            owners.insert(cidr.to_string(), BlockOwner::parse(&value).unwrap());
        }
    }
    let mut count = 0;
    for node in &nodes {
        for (cidr, owner) in listed(node) {
            assert_eq!(owners.get(&cidr), Some(&owner), "{cidr} on {}", node.name);
            count += 1;
        }
    }
    assert_eq!(count, owners.len(), "each claimed block is in a file");
    assert!(count > 0);
}
