//! Claims of blocks: lost ones, failed ones, and the room for the next ADD.

use std::fs;
use std::path::PathBuf;

use cluster::block::{self, BlockFiles};
use cluster::{BlockOwner, Engine, Key, Node};
use cni::{Environment, Error, code};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::interrupted::Interrupted;
use super::memory_engine::Store;
use super::nodes;
use super::traffic::call;

/// A node, and the pool `blue` with four blocks of five or more addresses.
struct Site {
    _folder: TempDir,
    node: Node,
    data_dir: PathBuf,
    store: Store,
}

impl Site {
    fn new(definition: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = nodes(folder.path()).swap_remove(0);
        let data_dir = folder.path().join("data");
        fs::create_dir_all(data_dir.join("blue")).unwrap();
        let store = Store::default();
        store.put(Key::Pool("blue".to_owned()), definition.as_bytes());
        Self {
            _folder: folder,
            node,
            data_dir,
            store,
        }
    }

    fn keys(pools: &Value) -> Value {
        json!({
            "cni.dev/valid-attachments": [],
            "ipam": {"type": "x", "keepEmptyBlocks": "1h"},
            "prevResult": {"cniVersion": "1.1.0", "ips": [], "pools": pools},
        })
    }

    fn add_with(&self, engine: &mut dyn Engine, pool: &Value) -> Result<(), Error> {
        let environment = Environment::default();
        let call = call(&environment, &Self::keys(&json!([pool])));
        block::add(engine, &self.node, &self.data_dir, &call).map(|_| ())
    }

    fn add(&self, engine: &mut dyn Engine) -> Result<(), Error> {
        self.add_with(engine, &json!({"name": "blue"}))
    }

    /// Claims the block of this address.
    fn claim(&self, ip: &str) {
        let pool = json!({"name": "blue", "requested-ip": ip});
        self.add_with(&mut Interrupted::new(&self.store), &pool)
            .unwrap();
    }

    fn gc(&self, engine: &mut dyn Engine) -> Result<(), Error> {
        self.gc_keeping("1h", engine)
    }

    /// GC that keeps empty blocks for this time.
    fn gc_keeping(&self, time: &str, engine: &mut dyn Engine) -> Result<(), Error> {
        let environment = Environment::default();
        let mut keys = Self::keys(&json!([]));
        keys["ipam"]["keepEmptyBlocks"] = time.into();
        let call = call(&environment, &keys);
        block::give_back(engine, &self.node, &self.data_dir, &call)
    }

    fn status(&self, keys: &Value) -> Result<(), Error> {
        let environment = Environment::default();
        let engine = &mut Interrupted::new(&self.store);
        let call = call(&environment, keys);
        block::status(engine, &self.node, &self.data_dir, "x", &call)
    }

    /// Reserves addresses as `ipam-da-host-local` would.
    fn reserve(&self, ips: impl IntoIterator<Item = &'static str>) {
        for ip in ips {
            fs::write(self.data_dir.join("blue").join(ip), "c\r\neth0\nnet\n").unwrap();
        }
    }

    /// The blocks in the node's file.
    fn listed(&self) -> Vec<String> {
        let files = BlockFiles::all(&self.node).unwrap();
        let blocks = files.into_iter().flat_map(|(_, file)| file.blocks);
        blocks.map(|block| block.cidr.to_string()).collect()
    }

    /// The blocks in the engine, each with its node.
    fn claimed(&self) -> Vec<(String, String)> {
        let block = |(key, value): (Key, Vec<u8>)| match key {
            Key::Block(_, cidr) => Some((cidr.to_string(), BlockOwner::parse(&value)?.node)),
            _ => None,
        };
        self.store.objects().into_iter().filter_map(block).collect()
    }

    fn lose(&self, block: &str) {
        self.store.delete(&key(block));
    }

    /// The owner of a block in the engine.
    fn owner(&self, block: &str) -> BlockOwner {
        let mut objects = self.store.objects().into_iter();
        let found = objects.find(|(found, _)| *found == key(block));
        BlockOwner::parse(&found.unwrap().1).unwrap()
    }

    /// A node claims a block.
    fn put(&self, block: &str, node: &str) {
        self.store
            .put(key(block), &BlockOwner::new(node).to_value());
    }
}

fn key(block: &str) -> Key {
    Key::Block("blue".to_owned(), block.parse().unwrap())
}

const BLUE: &str = r#"{"subnet":"10.0.0.0/27","block":29}"#;
const LOST: &str = "10.0.0.8/29";
const KEPT: &str = "10.0.0.16/29";

fn with_two_blocks() -> Site {
    let site = Site::new(BLUE);
    site.claim("10.0.0.9");
    site.claim("10.0.0.17");
    assert_eq!(site.listed(), [LOST, KEPT]);
    site
}

/// A node with two blocks, of which the engine has lost the first.
fn with_a_lost_block() -> Site {
    let site = with_two_blocks();
    site.lose(LOST);
    site
}

fn of(block: &str, node: &str) -> (String, String) {
    (block.to_owned(), node.to_owned())
}

#[test]
fn a_claim_that_never_reached_the_engine_leaves_no_block() {
    let site = Site::new(BLUE);
    let mut engine = Interrupted::new(&site.store);
    engine.loses_changes = true;
    let refused = site.add(&mut engine).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [""; 0]);
    assert_eq!(site.claimed(), []);
}

#[test]
fn a_block_that_the_engine_has_lost_is_claimed_again() {
    let site = with_two_blocks();
    let former = site.owner(LOST);
    site.lose(LOST);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed().len(), 2);
    assert_eq!(site.claimed(), [of(LOST, "n0"), of(KEPT, "n0")]);
    // A release of the former claim that is late doesn't release this one.
    assert_ne!(site.owner(LOST), former);
}

#[test]
fn a_lost_block_that_another_node_claims_first_is_not_used() {
    let site = with_a_lost_block();
    let engine = &mut Interrupted::once(&site.store, |store, _| {
        store.put(key(LOST), &BlockOwner::new("n2").to_value());
    });
    site.gc(engine).unwrap();
    assert_eq!(site.listed(), [KEPT]);
    assert_eq!(site.claimed(), [of(LOST, "n2"), of(KEPT, "n0")]);
}

#[test]
fn a_lost_block_of_another_length_is_not_used() {
    let site = with_a_lost_block();
    let other = br#"{"subnet":"10.0.0.0/27","block":28}"#;
    site.store.put(Key::Pool("blue".to_owned()), other);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [KEPT]);
    assert_eq!(site.claimed(), [of(KEPT, "n0")]);
}

#[test]
fn after_a_restore_gc_claims_no_lost_block_and_is_refused_only_if_there_is_one() {
    let site = with_a_lost_block();
    let mark = Key::Mark("n7".to_owned());
    site.store.put(mark.clone(), b"");
    let refused = site.gc(&mut Interrupted::new(&site.store)).unwrap_err();
    assert!(refused.msg.contains("n7"), "{refused}");
    assert_eq!(site.listed(), [LOST, KEPT]);
    assert_eq!(site.claimed(), [of(KEPT, "n0")]);
    site.store.delete(&mark);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    site.store.put(mark, b"");
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
}

/// The number of requests of an ADD that finds a free address.
fn requests(site: &Site) -> usize {
    let mut engine = Interrupted::new(&site.store);
    site.add(&mut engine).unwrap();
    engine.requests
}

#[test]
fn after_a_failed_claim_the_engine_is_left_alone_for_ten_seconds_while_there_is_room() {
    // One block with five addresses.
    let site = Site::new(r#"{"subnet":"10.0.0.0/29","block":29}"#);
    site.claim("10.0.0.2");
    assert_eq!(requests(&site), 0);
    site.reserve(["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]);
    assert_ne!(requests(&site), 0);
    assert_eq!(requests(&site), 0);
    // As if ten seconds had passed.
    let path = site.node.state_dir.join("blocks/blue.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let seconds = file["failed"]["seconds"].as_u64().unwrap();
    file["failed"]["seconds"] = (seconds - 10).into();
    fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
    assert_ne!(requests(&site), 0);
    site.reserve(["10.0.0.6"]);
    let full = site.add(&mut Interrupted::new(&site.store)).unwrap_err();
    assert_eq!(full.code, code::TRY_AGAIN_LATER);
}

#[test]
fn status_is_refused_if_the_nodes_blocks_are_full_and_no_other_is_free() {
    let site = Site::new(r#"{"subnet":"10.0.0.0/29","block":29}"#);
    let keys = Site::keys(&json!([{"name": "blue"}]));
    site.claim("10.0.0.2");
    site.reserve(["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]);
    assert!(site.status(&keys).is_ok());
    site.reserve(["10.0.0.6"]);
    let refused = site.status(&keys).unwrap_err();
    assert_eq!(refused.code, code::UNAVAILABLE);
    assert!(refused.msg.contains("no block left"), "{refused}");
}

#[test]
fn status_without_pools_needs_a_selector_before() {
    let site = Site::new(BLUE);
    let keys = |delegates: Value| json!({"ipam": {"type": "x", "delegates": delegates}});
    assert!(site.status(&keys(json!(["selector", "x"]))).is_ok());
    for delegates in [json!(["x", "allocator"]), json!([])] {
        let refused = site.status(&keys(delegates)).unwrap_err();
        assert_eq!(refused.code, code::UNAVAILABLE);
        assert!(refused.msg.contains("prevResult.pools"), "{refused}");
    }
}

#[test]
fn a_block_of_the_node_that_its_file_lacks_is_adopted_unless_there_was_a_restore() {
    let site = Site::new(BLUE);
    site.claim("10.0.0.9");
    site.put(KEPT, "n0");
    site.put("10.0.0.24/29", "n2");
    let mark = Key::Mark("n7".to_owned());
    site.store.put(mark.clone(), b"");
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [LOST]);
    site.store.delete(&mark);
    site.gc(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [LOST, KEPT]);
}

#[test]
fn an_empty_block_is_given_back_unless_it_was_claimed_again() {
    let site = with_two_blocks();
    // The first GC puts the blocks aside.
    let gc = |engine: &mut Interrupted<'_>| site.gc_keeping("0s", engine).unwrap();
    gc(&mut Interrupted::new(&site.store));
    assert_eq!(site.claimed().len(), 2);
    gc(&mut Interrupted::once(&site.store, |store, _| {
        store.put(key(LOST), &BlockOwner::new("n2").to_value());
    }));
    assert_eq!(site.listed(), [""; 0]);
    assert_eq!(site.claimed(), [of(LOST, "n2")]);
}

#[test]
fn a_block_that_is_put_aside_is_used_before_another_is_claimed() {
    let site = Site::new(BLUE);
    site.claim("10.0.0.9");
    site.gc_keeping("0s", &mut Interrupted::new(&site.store))
        .unwrap();
    site.add(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), [LOST]);
    assert_eq!(site.claimed(), [of(LOST, "n0")]);
    assert_eq!(requests(&site), 0);
}

#[test]
fn blocks_of_a_former_length_overlap_with_no_new_one() {
    let site = Site::new(BLUE);
    site.put("10.0.0.0/28", "n2");
    let pool = json!({"name": "blue", "requested-ip": "10.0.0.9"});
    let taken = site.add_with(&mut Interrupted::new(&site.store), &pool);
    assert_eq!(taken.unwrap_err().code, code::REQUESTED_TAKEN);
    for block in ["10.0.0.16/29", "10.0.0.24/29"] {
        site.claim(&block.replace("/29", "").replace("16", "17"));
    }
    site.reserve(["10.0.0.16", "10.0.0.17", "10.0.0.18", "10.0.0.19"]);
    site.reserve(["10.0.0.20", "10.0.0.21", "10.0.0.22", "10.0.0.23"]);
    site.reserve(["10.0.0.24", "10.0.0.25", "10.0.0.26", "10.0.0.27"]);
    site.reserve(["10.0.0.28", "10.0.0.29", "10.0.0.30"]);
    let full = site.add(&mut Interrupted::new(&site.store)).unwrap_err();
    assert!(full.msg.contains("no block left"), "{full}");
}

#[test]
fn blocks_are_compared_with_an_engine_at_another_address() {
    let mut site = Site::new(BLUE);
    site.claim("10.0.0.9");
    assert_eq!(requests(&site), 0);
    site.node.endpoints = vec!["another".to_owned()];
    assert_ne!(requests(&site), 0);
    assert_eq!(requests(&site), 0);
    // This one is another cluster.
    site.node.endpoints = vec!["a third".to_owned()];
    site.lose(LOST);
    let refused = site.add(&mut Interrupted::new(&site.store)).unwrap_err();
    assert_eq!(refused.code, code::INVALID_CONFIG);
    assert!(
        refused.msg.contains("knows none of the 1 blocks"),
        "{refused}"
    );
}
