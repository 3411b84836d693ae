//! Claims and returns of blocks, and the room for the next ADD.

use std::fs;
use std::path::PathBuf;

use cluster::block::{self, BlockFiles};
use cluster::{BlockOwner, Engine, Key, Node};
use cni::{Environment, Error, IpamResult, JsonOutput, Reply, SpecVersion, code};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::interrupted::Interrupted;
use super::memory_engine::Store;
use super::nodes;
use super::traffic::call;

/// A node, and the pool `blue` with four blocks of five or more addresses.
pub(crate) struct Site {
    _folder: TempDir,
    pub(crate) node: Node,
    data_dir: PathBuf,
    pub(crate) store: Store,
}

impl Site {
    pub(crate) fn new(definition: &str) -> Self {
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

    pub(crate) fn add(&self, engine: &mut dyn Engine) -> Result<(), Error> {
        self.add_with(engine, &json!({"name": "blue"}))
    }

    /// Claims the block of this address.
    pub(crate) fn claim(&self, ip: &str) {
        let pool = json!({"name": "blue", "requested-ip": ip});
        self.add_with(&mut Interrupted::new(&self.store), &pool)
            .unwrap();
    }

    pub(crate) fn gc(&self, engine: &mut dyn Engine) -> Result<(), Error> {
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
        self.status_of(&mut Interrupted::new(&self.store), keys)
    }

    fn status_of(&self, engine: &mut dyn Engine, keys: &Value) -> Result<(), Error> {
        let environment = Environment::default();
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
    pub(crate) fn listed(&self) -> Vec<String> {
        let files = BlockFiles::open(&self.node, PathBuf::new()).unwrap();
        let blocks = files
            .all()
            .unwrap()
            .into_iter()
            .flat_map(|file| file.blocks);
        blocks.map(|block| block.cidr.to_string()).collect()
    }

    /// The blocks in the engine, each with its node.
    pub(crate) fn claimed(&self) -> Vec<(String, String)> {
        let block = |(key, value): (Key, Vec<u8>)| match key {
            Key::Block(_, cidr) => Some((cidr.to_string(), BlockOwner::parse(&value)?.node)),
            _ => None,
        };
        self.store.objects().into_iter().filter_map(block).collect()
    }

    pub(crate) fn lose(&self, block: &str) {
        self.store.delete(&key(block));
    }

    /// The owner of a block in the engine.
    pub(crate) fn owner(&self, block: &str) -> BlockOwner {
        let mut objects = self.store.objects().into_iter();
        let found = objects.find(|(found, _)| *found == key(block));
        BlockOwner::parse(&found.unwrap().1).unwrap()
    }

    /// A node claims a block.
    pub(crate) fn put(&self, block: &str, node: &str) {
        self.store
            .put(key(block), &BlockOwner::new(node).to_value());
    }
}

pub(crate) fn key(block: &str) -> Key {
    Key::Block("blue".to_owned(), block.parse().unwrap())
}

pub(crate) const BLUE: &str = r#"{"subnet":"10.0.0.0/27","block":29}"#;
pub(crate) const LOST: &str = "10.0.0.8/29";
pub(crate) const KEPT: &str = "10.0.0.16/29";

pub(crate) fn with_two_blocks() -> Site {
    let site = Site::new(BLUE);
    site.claim("10.0.0.9");
    site.claim("10.0.0.17");
    assert_eq!(site.listed(), [LOST, KEPT]);
    site
}

pub(crate) fn of(block: &str, node: &str) -> (String, String) {
    (block.to_owned(), node.to_owned())
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
    // With room, it is ready without the engine.
    let mut engine = Interrupted::new(&site.store);
    engine.is_unreachable = true;
    assert!(site.status_of(&mut engine, &keys).is_ok());
    site.reserve(["10.0.0.6"]);
    assert!(site.status_of(&mut engine, &keys).is_err());
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

#[test]
fn only_the_empty_blocks_of_a_node_are_given_back() {
    let site = with_two_blocks();
    site.reserve(["10.0.0.17"]);
    for _ in 0..2 {
        site.gc_keeping("0s", &mut Interrupted::new(&site.store))
            .unwrap();
    }
    assert_eq!(site.listed(), [KEPT]);
    assert_eq!(site.claimed(), [of(KEPT, "n0")]);
}

#[test]
fn the_last_free_block_of_a_large_pool_is_claimed() {
    let site = Site::new(r#"{"subnet":"10.0.0.0/23","block":30}"#);
    for n in (0..512u32).step_by(4).filter(|n| *n != 400) {
        let first = std::net::Ipv4Addr::from(0x0a00_0000 + n);
        site.put(&format!("{first}/30"), "n2");
    }
    site.add(&mut Interrupted::new(&site.store)).unwrap();
    assert_eq!(site.listed(), ["10.0.1.144/30"]);
}

#[test]
fn after_a_new_registration_the_blocks_of_each_pool_are_compared() {
    let site = with_two_blocks();
    let green = json!({"name": "green"});
    let pool = br#"{"subnet":"10.1.0.0/29","block":29}"#;
    site.store.put(Key::Pool("green".to_owned()), pool);
    let requests_of = |pool: &Value| {
        let mut engine = Interrupted::new(&site.store);
        site.add_with(&mut engine, pool).unwrap();
        engine.requests
    };
    requests_of(&green);
    assert_eq!(requests_of(&green), 0);
    fs::remove_dir_all(&site.node.cache_dir).unwrap();
    assert_ne!(requests(&site), 0);
    assert_ne!(requests_of(&green), 0);
    assert_eq!(requests_of(&green), 0);
}

#[test]
fn files_that_can_not_be_read_are_not_missing_ones() {
    let site = with_two_blocks();
    let blocks = site.node.state_dir.join("blocks/blue.json");
    fs::remove_file(&blocks).unwrap();
    fs::create_dir(&blocks).unwrap();
    let refused = site.add(&mut Interrupted::new(&site.store)).unwrap_err();
    assert_eq!(refused.code, code::IO);
    assert!(site.gc(&mut Interrupted::new(&site.store)).is_err());
    let file = site.data_dir.join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(block::reserved(&file, "blue").unwrap_err().code, code::IO);
    assert!(block::reserved(&site.data_dir, "none").unwrap().is_empty());
}

fn printed(result: &IpamResult) -> Value {
    let output = JsonOutput::of_result(result, SpecVersion::V1_1_0);
    serde_json::from_str(output.json().get()).unwrap()
}

#[test]
fn the_known_pools_are_those_of_the_nodes_file() {
    let site = Site::new(BLUE);
    let environment = Environment::default();
    let mut keys = Site::keys(&json!([{"name": "blue", "requested-ip": "10.0.0.9"}]));
    keys["prevResult"]["ips"] = json!([{"address": "10.7.0.1/24"}]);
    let call = call(&environment, &keys);
    let known = || {
        let engine = &mut Interrupted::new(&site.store);
        match block::known_pools(engine, &site.node, &site.data_dir, &call).unwrap() {
            Reply::Result(result) => printed(&result),
            _ => Value::Null,
        }
    };
    assert_eq!(known(), Value::Null);
    site.claim("10.0.0.9");
    let pool = json!({"name": "blue", "ranges": [{
        "subnet": "10.0.0.0/27", "rangeStart": "10.0.0.8",
        "rangeEnd": "10.0.0.15", "gateway": "10.0.0.1",
    }]});
    assert_eq!(known()["pools"], json!([pool]));
    let without = printed(&block::without_pools(&call).unwrap());
    assert_eq!(without["pools"], json!([]));
    assert_eq!(without["ips"], known()["ips"]);
}
