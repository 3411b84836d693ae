//! Tools' changes that are sent twice, as after a lost answer, and changes of others between a
//! tool's read and its change.

use cluster::address::{Entry, Released, entries, release};
use cluster::contents::DefinedPool;
use cluster::forget::{Forgotten, NodeHoldings};
use cluster::import::{Imported, import};
use cluster::restore::{Reconciled, mark_nodes};
use cluster::{Condition, Engine, HeldKey, Holder, Holding, Key, take_over};
use cni::{Error, code};

use super::definitions::{claim, held, pool, reserve};
use super::interrupted::Interrupted;
use super::memory_engine::{Faults, MemoryEngine, Store};

const BLUE: &str = r#"{"subnet":"10.0.0.0/24"}"#;

/// A store with the pool `blue`.
fn store_of_blue() -> Store {
    let store = Store::default();
    store.put(Key::Pool("blue".to_owned()), BLUE.as_bytes());
    store
}

/// Takes over an address of `blue` for a container on `n1`.
fn taken_over(engine: &mut Interrupted<'_>, key: &HeldKey) -> Result<Reconciled, Error> {
    take_over(engine, &pool("blue", BLUE), key)
}

fn conflict(taken: Result<Reconciled, Error>) -> String {
    match taken {
        Ok(Reconciled::Conflict(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_address_is_taken_over_once_and_found_by_its_holder() {
    let store = store_of_blue();
    let key = held("n1", "blue", "10.0.0.9");
    let taken = taken_over(&mut Interrupted::new(&store), &key);
    assert_eq!(taken.unwrap(), Reconciled::Claimed);
    let engine = &mut MemoryEngine::new(&store, Faults::default(), 1);
    let address = engine.get(key.address()).unwrap().unwrap();
    let entry = engine.get(Key::Held(key.clone())).unwrap().unwrap();
    assert_eq!(address.value, entry.value);
    let holder = Holder::parse(&address.value).unwrap();
    assert!(holder.node == "n1" && holder.is(&key.attachment, "net"));
    let again = taken_over(&mut Interrupted::new(&store), &key);
    assert_eq!(again.unwrap(), Reconciled::Held);
}

#[test]
fn a_take_over_that_is_sent_twice_is_a_claim() {
    let store = store_of_blue();
    let key = held("n1", "blue", "10.0.0.9");
    let taken = taken_over(&mut Interrupted::sending_twice(&store), &key);
    assert_eq!(taken.unwrap(), Reconciled::Claimed);
}

#[test]
fn an_address_of_another_node_or_attachment_is_not_taken_over() {
    let other = HeldKey {
        network: "other".parse().unwrap(),
        ..held("n1", "blue", "10.0.0.9")
    };
    for (held, key) in [
        (
            held("n2", "blue", "10.0.0.9"),
            held("n1", "blue", "10.0.0.9"),
        ),
        (held("n1", "blue", "10.0.0.9"), other),
    ] {
        let store = store_of_blue();
        reserve(&store, &held.node, "blue", "10.0.0.9");
        let before = store.objects();
        let reason = conflict(taken_over(&mut Interrupted::new(&store), &key));
        assert!(
            reason.contains(&format!("network net on node {}", held.node)),
            "{reason}"
        );
        assert_eq!(store.objects(), before);
    }
}

#[test]
fn nothing_is_taken_over_from_a_changed_pool_or_one_given_in_blocks_or_after_a_restore() {
    let key = held("n1", "blue", "10.0.0.9");
    let other = br#"{"subnet":"10.0.0.0/23"}"#;
    let changed = store_of_blue();
    changed.put(Key::Pool("blue".to_owned()), other);
    let deleted = Store::default();
    for store in [&changed, &deleted] {
        let refused = taken_over(&mut Interrupted::new(store), &key).unwrap_err();
        assert_eq!(refused.code, code::TRY_AGAIN_LATER);
        assert!(refused.msg.contains("was changed meanwhile"), "{refused}");
    }
    let in_blocks = store_of_blue();
    claim(&in_blocks, "n2", "blue", "10.0.0.64/26");
    let reason = conflict(taken_over(&mut Interrupted::new(&in_blocks), &key));
    assert!(reason.contains("pool blue is given in blocks"), "{reason}");
    let restored = store_of_blue();
    let engine = &mut Interrupted::new(&restored);
    mark_nodes(engine, &["n7".to_owned()]).unwrap();
    let refused = taken_over(engine, &key).unwrap_err();
    assert!(refused.msg.ends_with("ipamctl reconcile: n7"), "{refused}");
    for store in [&changed, &deleted, &in_blocks, &restored] {
        let address = key.address();
        assert!(store.objects().iter().all(|(key, _)| *key != address));
    }
}

/// Reads the holdings of `n1`, and releases them with this engine.
fn forget<'a>(store: &'a Store, mut engine: Interrupted<'a>) -> Result<Forgotten, Error> {
    let reader = &mut MemoryEngine::new(store, Faults::default(), 1);
    NodeHoldings::read(reader, "n1")
        .unwrap()
        .release(&mut engine)
}

#[test]
fn a_release_that_is_sent_twice_is_a_release() {
    let store = Store::default();
    store.put(Key::Node("n1".to_owned()), b"registration");
    reserve(&store, "n1", "blue", "10.0.0.9");
    claim(&store, "n1", "green", "10.0.1.0/26");
    let forgotten = forget(&store, Interrupted::sending_twice(&store)).unwrap();
    let blocks = (forgotten.blocks.len(), forgotten.changed_blocks.len());
    assert_eq!(blocks, (1, 0));
    assert_eq!(store.objects(), []);
}

#[test]
fn a_block_that_another_has_released_meanwhile_is_not_counted_as_released() {
    let store = Store::default();
    claim(&store, "n1", "green", "10.0.1.0/26");
    let key = store.objects()[0].0.clone();
    let engine = Interrupted::once(&store, move |store, _| store.delete(&key));
    let forgotten = forget(&store, engine).unwrap();
    let blocks = (forgotten.blocks.len(), forgotten.changed_blocks.len());
    assert_eq!(blocks, (0, 1));
}

#[test]
fn a_block_that_was_claimed_again_is_kept_however_often_its_release_is_sent() {
    let store = Store::default();
    claim(&store, "n1", "green", "10.0.1.0/26");
    let mut engine = Interrupted::once(&store, |store, _| {
        claim(store, "n1", "green", "10.0.1.0/26");
    });
    engine.sends_twice = true;
    let forgotten = forget(&store, engine).unwrap();
    let blocks = (forgotten.blocks.len(), forgotten.changed_blocks.len());
    assert_eq!(blocks, (0, 1));
    assert_eq!(store.objects().len(), 1);
}

#[test]
fn a_registration_that_is_deleted_meanwhile_does_not_stop_the_release() {
    let store = Store::default();
    let node = Key::Node("n1".to_owned());
    store.put(node.clone(), b"registration");
    reserve(&store, "n1", "blue", "10.0.0.9");
    let engine = Interrupted::once(&store, move |store, _| store.delete(&node));
    assert_eq!(forget(&store, engine).unwrap().addresses, 1);
}

#[test]
fn an_import_that_is_sent_twice_says_what_the_first_one_did() {
    let store = Store::default();
    let pools = [pool("blue", BLUE)];
    let outcomes = import(&mut Interrupted::sending_twice(&store), &pools, false);
    assert_eq!(outcomes.unwrap()[0].1, Imported::Created);
}

#[test]
fn an_import_is_compared_again_if_an_address_or_a_pool_is_new() {
    let wider: DefinedPool = pool("blue", r#"{"subnet":"10.0.0.0/23"}"#);
    let changes: [fn(&Store); 3] = [
        |store| reserve(store, "n1", "blue", "10.0.0.9"),
        |store| claim(store, "n1", "blue", "10.0.0.64/26"),
        |store| store.put(Key::Pool("red".to_owned()), br#"{"subnet":"10.0.1.0/24"}"#),
    ];
    for change in changes {
        let store = store_of_blue();
        let engine = &mut Interrupted::once(&store, |store, _| change(store));
        let refused = import(engine, std::slice::from_ref(&wider), true).unwrap_err();
        assert_eq!(refused.code, code::INVALID_CONFIG, "{refused}");
    }
    let marked = store_of_blue();
    let engine = &mut Interrupted::once(&marked, |store, _| {
        store.put(Key::Mark("n7".to_owned()), b"");
    });
    let refused = import(engine, std::slice::from_ref(&wider), true).unwrap_err();
    assert!(refused.msg.contains("ipamctl reconcile: n7"), "{refused}");
}

/// The entries of `n1`, and a store in which it has two addresses.
fn two_entries() -> (Store, Vec<Entry>) {
    let store = Store::default();
    for ip in ["10.0.0.9", "10.0.0.10"] {
        reserve(&store, "n1", "blue", ip);
    }
    let found = entries(&mut Interrupted::new(&store), Holding::of_node("n1"));
    let found = found.unwrap();
    (store, found)
}

fn without_registration() -> Condition {
    Condition::Missing(Key::Node("n1".to_owned()))
}

#[test]
fn addresses_that_are_released_one_by_one_are_counted() {
    let (store, found) = two_entries();
    // A later ADD has the first address.
    reserve(&store, "n1", "blue", "10.0.0.9");
    let released = release(
        &mut Interrupted::new(&store),
        &found,
        &without_registration(),
    );
    assert_eq!(released.unwrap(), Released::All(1));
    let left: Vec<Key> = store.objects().into_iter().map(|(key, _)| key).collect();
    assert_eq!(
        left,
        [found[0].held.address(), Key::Held(found[0].held.clone())]
    );
}

#[test]
fn nothing_of_a_node_that_registers_meanwhile_is_released() {
    let (store, found) = two_entries();
    let node = Key::Node("n1".to_owned());
    store.put(node.clone(), b"registration");
    // Another attachment has the second address by now: only the entry would be released.
    store.put(found[1].held.address(), b"another");
    let before = store.objects();
    for entries in [&found[..1], &found[1..]] {
        let released = release(
            &mut Interrupted::new(&store),
            entries,
            &without_registration(),
        );
        let Ok(Released::Refused(Some(registered))) = released else {
            panic!("{released:?}");
        };
        assert_eq!(registered.key, node);
        assert_eq!(store.objects(), before);
    }
}

#[test]
fn an_address_that_another_has_by_now_keeps_its_holder_and_loses_the_old_entry() {
    let (store, found) = two_entries();
    store.put(found[1].held.address(), b"another");
    let released = release(
        &mut Interrupted::new(&store),
        &found,
        &without_registration(),
    );
    assert_eq!(released.unwrap(), Released::All(1));
    let left = [(found[1].held.address(), b"another".to_vec())];
    assert_eq!(store.objects(), left);
}
