//! Addresses and blocks that a node claims again after a restore of the engine.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use cluster::restore::{
    Reconciled, clear_mark, mark, mark_nodes, marked, reconcile_address, reconcile_blocks,
};
use cluster::{BlockOwner, Change, DefinedPools, HeldKey, Identity, Key, Node, block};
use cni::{Environment, Error};
use serde_json::json;
use tempfile::TempDir;

use super::definitions::{held, reserve};
use super::interrupted::Interrupted;
use super::memory_engine::Store;
use super::traffic::call;
use super::{nodes, store_of_blue};

/// `n0`, with its folders.
fn node() -> (TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = nodes(folder.path()).swap_remove(0);
    (folder, node)
}

/// Claims an address of `n0` again.
fn reconcile(
    engine: &mut Interrupted<'_>,
    node: &Node,
    held: &HeldKey,
    lives: impl Fn() -> bool,
) -> Result<Option<Reconciled>, Error> {
    let environment = Environment::default();
    let mut identity = Identity::of(node, &environment, engine).unwrap();
    let pools = &mut DefinedPools::read(engine).unwrap();
    reconcile_address(engine, &mut identity, pools, held, lives)
}

/// The addresses and their entries.
fn reserved(store: &Store) -> Vec<(Key, Vec<u8>)> {
    let mut objects = store.objects();
    objects.retain(|(key, _)| matches!(key, Key::Address(..) | Key::Held(_)));
    objects
}

fn is_conflict(state: &Result<Option<Reconciled>, Error>) -> bool {
    matches!(state, Ok(Some(Reconciled::Conflict(_))))
}

#[test]
fn a_lost_address_is_claimed_again_and_then_held() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let held = held("n0", "blue", "10.0.0.5");
    for state in [Reconciled::Claimed, Reconciled::Held] {
        let found = reconcile(&mut Interrupted::new(&store), &node, &held, || true);
        assert_eq!(found.unwrap(), Some(state));
        assert_eq!(reserved(&store).len(), 2);
    }
    store.delete(&Key::Held(held.clone()));
    let found = reconcile(&mut Interrupted::new(&store), &node, &held, || true);
    assert_eq!(found.unwrap(), Some(Reconciled::Claimed));
    assert_eq!(reserved(&store).len(), 2);
}

#[test]
fn the_claim_for_a_deleted_attachment_is_undone() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let held = held("n0", "blue", "10.0.0.5");
    let found = reconcile(&mut Interrupted::new(&store), &node, &held, || false);
    assert_eq!(found.unwrap(), None);
    assert_eq!(reserved(&store), []);
}

#[test]
fn what_others_have_by_now_is_not_undone() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let held = held("n0", "blue", "10.0.0.5");
    let is_claimed = Cell::new(false);
    let engine = &mut Interrupted::with(&store, |store, _| {
        if is_claimed.replace(true) {
            reserve(store, "n0", "blue", "10.0.0.5");
        }
    });
    let found = reconcile(engine, &node, &held, || false);
    assert_eq!(found.unwrap(), None);
    assert_eq!(reserved(&store).len(), 2);
}

#[test]
fn an_address_that_another_has_by_now_is_a_conflict_as_long_as_the_attachment_lives() {
    let (_folder, node) = node();
    let store = store_of_blue();
    reserve(&store, "n2", "blue", "10.0.0.5");
    let before = reserved(&store);
    let held = held("n0", "blue", "10.0.0.5");
    let found = reconcile(&mut Interrupted::new(&store), &node, &held, || true);
    assert!(is_conflict(&found));
    let found = reconcile(&mut Interrupted::new(&store), &node, &held, || false);
    assert_eq!(found.unwrap(), None);
    assert_eq!(reserved(&store), before);
    // An address that the engine still has as the node's is held whether or not it lives.
    let store = store_of_blue();
    reserve(&store, "n0", "blue", "10.0.0.5");
    let found = reconcile(&mut Interrupted::new(&store), &node, &held, || false);
    assert_eq!(found.unwrap(), Some(Reconciled::Held));
}

#[test]
fn the_entry_of_an_address_that_is_changed_meanwhile_is_not_written() {
    let (_folder, node) = node();
    let store = store_of_blue();
    reserve(&store, "n0", "blue", "10.0.0.5");
    let held = held("n0", "blue", "10.0.0.5");
    store.delete(&Key::Held(held.clone()));
    let engine = &mut Interrupted::with(&store, |store, change| {
        // The second change writes the entry only.
        if change.write.len() == 1 {
            store.put(held.address(), b"another");
        }
    });
    let found = reconcile(engine, &node, &held, || true);
    assert!(is_conflict(&found));
    assert_eq!(reserved(&store), [(held.address(), b"another".to_vec())]);
}

#[test]
fn an_address_that_its_pool_does_not_give_is_a_conflict() {
    let (_folder, node) = node();
    for ip in ["10.0.1.5", "10.0.0.1"] {
        let store = store_of_blue();
        let held = held("n0", "blue", ip);
        let found = reconcile(&mut Interrupted::new(&store), &node, &held, || true);
        assert!(is_conflict(&found), "{ip}");
        assert_eq!(reserved(&store), []);
    }
}

#[test]
fn a_blocks_value_becomes_that_of_the_nodes_file_again() {
    let (folder, node) = node();
    let store = Store::default();
    let pool = br#"{"subnet":"10.0.0.0/29","block":29}"#;
    store.put(Key::Pool("blue".to_owned()), pool);
    let data_dir = folder.path().join("data");
    fs::create_dir_all(&data_dir).unwrap();
    let environment = Environment::default();
    let pools = json!({"cniVersion": "1.1.0", "ips": [], "pools": [{"name": "blue"}]});
    let call = call(&environment, &json!({"prevResult": pools}));
    let engine = &mut Interrupted::new(&store);
    block::add(engine, &node, &data_dir, &call).unwrap();
    let key = Key::Block("blue".to_owned(), "10.0.0.0/29".parse().unwrap());
    let value = |store: &Store| {
        let mut objects = store.objects().into_iter();
        objects.find(|(found, _)| *found == key).unwrap().1
    };
    let claimed = value(&store);
    let mut reconcile = || {
        let mut identity = Identity::of(&node, &environment, engine).unwrap();
        let pools = &mut DefinedPools::read(engine).unwrap();
        let mut found = reconcile_blocks(engine, &mut identity, pools, &node).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0).2
    };
    assert_eq!(reconcile(), Reconciled::Held);
    store.put(key.clone(), &BlockOwner::new(&node.name).to_value());
    assert_ne!(value(&store), claimed);
    assert_eq!(reconcile(), Reconciled::Claimed);
    assert_eq!(value(&store), claimed);
    store.put(key.clone(), &BlockOwner::new("n2").to_value());
    assert!(matches!(reconcile(), Reconciled::Conflict(_)));
}

#[test]
fn the_marked_nodes_are_those_that_are_named_or_hold_something() {
    let store = store_of_blue();
    reserve(&store, "n2", "blue", "10.0.0.5");
    let engine = &mut Interrupted::new(&store);
    mark_nodes(engine, &["n7".to_owned()]).unwrap();
    assert_eq!(marked(engine).unwrap(), ["n2", "n7"]);
}

#[test]
fn a_mark_that_was_written_again_stays() {
    let store = store_of_blue();
    let engine = &mut Interrupted::new(&store);
    let key = Key::Mark("n7".to_owned());
    store.put(key.clone(), b"");
    let read = mark(engine, "n7").unwrap().unwrap();
    store.put(key, b"");
    assert!(!clear_mark(engine, &read).unwrap());
    assert_eq!(marked(engine).unwrap(), ["n7"]);
    let read = mark(engine, "n7").unwrap().unwrap();
    assert!(clear_mark(engine, &read).unwrap());
    assert!(marked(engine).unwrap().is_empty());
}

/// The outcome of each block.
type States = Vec<(String, Reconciled)>;

/// The blocks in the store with their owners; `None` for foreign content.
type Owners = Vec<(Key, Option<BlockOwner>)>;

/// The blocks that `n0` claims again in `green`, a pool with four blocks, of which its file has
/// the first. `change` changes the store and the node's reservations before, `meanwhile` during it.
fn reconciled_blocks(
    change: impl FnOnce(&Store, &Path),
    meanwhile: impl FnMut(&Store, &Change),
) -> (States, Owners) {
    let (folder, node) = node();
    let store = Store::default();
    let pool = br#"{"subnet":"10.0.0.0/27","block":29}"#;
    store.put(Key::Pool("green".to_owned()), pool);
    let data_dir = folder.path().join("data");
    let reservations = data_dir.join("green");
    fs::create_dir_all(&reservations).unwrap();
    let environment = Environment::default();
    let pools = json!([{"name": "green", "requested-ip": "10.0.0.2"}]);
    let result = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
    let call = call(&environment, &json!({"prevResult": result}));
    block::add(&mut Interrupted::new(&store), &node, &data_dir, &call).unwrap();
    change(&store, &reservations);
    let engine = &mut Interrupted::with(&store, meanwhile);
    let mut identity = Identity::of(&node, &environment, engine).unwrap();
    let pools = &mut DefinedPools::read(engine).unwrap();
    let states = reconcile_blocks(engine, &mut identity, pools, &node).unwrap();
    let states = states.into_iter();
    let states = states.map(|(_, cidr, state)| (cidr.to_string(), state));
    let blocks = store.objects().into_iter();
    let blocks = blocks.filter(|(key, _)| matches!(key, Key::Block(..)));
    (
        states.collect(),
        blocks
            .map(|(key, value)| (key, BlockOwner::parse(&value)))
            .collect(),
    )
}

fn green(block: &str) -> Key {
    Key::Block("green".to_owned(), block.parse().unwrap())
}

const LISTED: &str = "10.0.0.0/29";
const UNLISTED: &str = "10.0.0.8/29";

#[test]
fn a_block_that_the_node_does_not_use_is_given_back_unless_it_was_claimed_again() {
    let later = BlockOwner::new("n0");
    for is_claimed_again in [false, true] {
        let (states, blocks) = reconciled_blocks(
            |store, _| store.put(green(UNLISTED), &BlockOwner::new("n0").to_value()),
            |store, change| {
                if is_claimed_again && !change.delete.is_empty() {
                    store.put(green(UNLISTED), &later.to_value());
                }
            },
        );
        assert_eq!(states, [(LISTED.to_owned(), Reconciled::Held)]);
        let kept = blocks.iter().any(|(key, _)| *key == green(UNLISTED));
        assert_eq!(kept, is_claimed_again);
    }
}

#[test]
fn the_block_of_a_reserved_address_is_claimed_though_the_file_lacks_it() {
    let (states, blocks) = reconciled_blocks(
        |_, reservations| {
            for ip in ["10.0.0.2", "10.0.0.9", "10.9.0.9"] {
                fs::write(reservations.join(ip), "c\r\neth0\nnet\n").unwrap();
            }
        },
        |_, _| (),
    );
    let expected = [
        (LISTED.to_owned(), Reconciled::Held),
        (UNLISTED.to_owned(), Reconciled::Claimed),
    ];
    assert_eq!(states, expected);
    assert_eq!(blocks.len(), 2);
}

#[test]
fn a_lost_block_that_overlaps_with_one_of_another_length_is_a_conflict() {
    let foreign = b"by hand".to_vec();
    for (value, owner) in [
        (BlockOwner::new("n2").to_value(), "node n2's"),
        (foreign, "held by content that isn't ours"),
    ] {
        let (states, blocks) = reconciled_blocks(
            |store, _| {
                store.delete(&green(LISTED));
                store.put(green("10.0.0.0/28"), &value);
            },
            |_, _| (),
        );
        let state = Reconciled::Conflict(format!("block 10.0.0.0/28 is {owner}"));
        assert_eq!(states, [(LISTED.to_owned(), state)]);
        assert_eq!(blocks.len(), 1);
    }
}
