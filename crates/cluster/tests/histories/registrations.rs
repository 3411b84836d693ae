//! The registration of a node that others change between its look and its change.

use cluster::restore::mark;
use cluster::{Key, take_name};
use cni::{Environment, code};
use serde_json::json;

use super::adds::{add, del, node, reserved};
use super::interrupted::Interrupted;
use super::memory_engine::Store;
use super::{nodes, store_of_blue};

#[test]
fn of_two_machines_that_register_one_name_at_once_one_is_refused() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let name = Key::Node(node.name.clone());
    let mut engine = Interrupted::once(&store, |store, _| store.put(name.clone(), b"another"));
    engine.interrupts_registrations = true;
    let refused = add(&mut engine, &node, &json!([{"name": "blue"}])).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER);
    assert!(refused.msg.contains("was changed just now"), "{refused}");
    let objects = store.objects().into_iter();
    let registered: Vec<_> = objects.filter(|(key, _)| *key == name).collect();
    assert_eq!(registered, [(name.clone(), b"another".to_vec())]);
}

#[test]
fn a_registration_whose_answer_is_lost_is_not_another_machines() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let mut engine = Interrupted::sending_twice(&store);
    engine.interrupts_registrations = true;
    assert!(add(&mut engine, &node, &json!([{"name": "blue"}])).is_ok());
    assert_eq!(reserved(&store).len(), 1);
}

#[test]
fn a_node_that_was_forgotten_registers_again_with_its_next_add() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let pools = json!([{"name": "blue"}]);
    add(&mut Interrupted::new(&store), &node, &pools).unwrap();
    del(&store, &node).unwrap();
    let name = Key::Node(node.name.clone());
    store.delete(&name);
    add(&mut Interrupted::new(&store), &node, &pools).unwrap();
    assert!(store.objects().iter().any(|(key, _)| *key == name));
}

#[test]
fn a_node_whose_name_another_machine_has_taken_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = nodes(folder.path());
    nodes[1].name = nodes[0].name.clone();
    let store = store_of_blue();
    let pools = json!([{"name": "blue"}]);
    add(&mut Interrupted::new(&store), &nodes[0], &pools).unwrap();
    let environment = Environment::default();
    take_name(&nodes[1], &environment, &mut Interrupted::new(&store)).unwrap();
    assert!(del(&store, &nodes[0]).is_err());
    assert_eq!(reserved(&store).len(), 1);
    for (key, _) in store.objects() {
        if matches!(key, Key::Address(..) | Key::Held(_)) {
            store.delete(&key);
        }
    }
    let refused = add(&mut Interrupted::new(&store), &nodes[0], &pools).unwrap_err();
    assert_eq!(refused.code, code::INVALID_CONFIG);
    assert!(
        refused.msg.contains("is the name of another node"),
        "{refused}"
    );
}

#[test]
fn the_mark_of_a_node_is_written_once() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let older = store.snapshot();
    let pools = json!([{"name": "blue"}]);
    add(&mut Interrupted::new(&store), &node, &pools).unwrap();
    store.restore(older);
    let mark = |store: &Store| mark(&mut Interrupted::new(store), &node.name).unwrap();
    let refused = || add(&mut Interrupted::new(&store), &node, &pools).unwrap_err();
    assert!(refused().msg.contains("was restored"));
    let first = mark(&store);
    assert!(first.is_some());
    refused();
    assert_eq!(mark(&store), first);
}

#[test]
fn registrations_of_other_names_that_can_not_be_read_are_not_missing_ones() {
    let (folder, mut node) = node();
    let store = store_of_blue();
    node.is_named = false;
    assert!(del(&store, &node).is_ok());
    node.cache_dir = folder.path().join("file");
    std::fs::write(&node.cache_dir, "").unwrap();
    assert_eq!(del(&store, &node).unwrap_err().code, code::IO);
}
