//! Import of pools, the lists of an engine's contents, and the release of a lost node's holdings.

use cluster::contents::{DefinedPool, claimed_blocks, definitions, held_addresses};
use cluster::forget::NodeHoldings;
use cluster::import::{Imported, import};
use cluster::restore::mark_nodes;
use cluster::{BlockOwner, Engine, HeldKey, Holder, Key};
use cni::Attachment;

use super::memory_engine::{Faults, MemoryEngine, Store};

fn engine(store: &Store) -> MemoryEngine<'_> {
    MemoryEngine::new(store, Faults::default(), 1)
}

pub(crate) fn pool(name: &str, definition: &str) -> DefinedPool {
    DefinedPool::read(name, name, definition.into()).unwrap()
}

pub(crate) fn held(node: &str, pool: &str, ip: &str) -> HeldKey {
    HeldKey {
        node: node.to_owned(),
        network: "net".parse().unwrap(),
        attachment: Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        },
        pool: pool.parse().unwrap(),
        ip: ip.parse().unwrap(),
    }
}

/// Reserves an address of a pool to a container on a node.
pub(crate) fn reserve(store: &Store, node: &str, pool: &str, ip: &str) {
    let held = held(node, pool, ip);
    let value = Holder::new(node, "net", &held.attachment, None).to_value();
    store.put(held.address(), &value);
    store.put(Key::Held(held), &value);
}

pub(crate) fn claim(store: &Store, node: &str, pool: &str, block: &str) {
    let key = Key::Block(pool.to_owned(), block.parse().unwrap());
    store.put(key, &BlockOwner::new(node).to_value());
}

/// The outcomes, or the refusal.
fn outcomes(store: &Store, pools: &[DefinedPool], replaces: bool) -> Result<Vec<Imported>, String> {
    match import(&mut engine(store), pools, replaces) {
        Ok(outcomes) => Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect()),
        Err(error) => Err(error.msg),
    }
}

fn value_of(store: &Store, pool: &str) -> Option<String> {
    let found = engine(store).get(Key::Pool(pool.to_owned())).unwrap()?;
    Some(String::from_utf8(found.value).unwrap())
}

#[test]
fn pools_are_created_left_and_replaced() {
    let store = Store::default();
    let blue = pool("blue", r#"{"subnet":"10.0.0.0/24","vlan":7}"#);
    let green = pool("green", r#"{"subnet":"10.0.1.0/24"}"#);
    let first = outcomes(&store, std::slice::from_ref(&blue), false);
    assert_eq!(first.unwrap(), [Imported::Created]);
    let second = outcomes(&store, &[blue, green], false);
    assert_eq!(second.unwrap(), [Imported::Unchanged, Imported::Created]);
    // The order of the keys doesn't matter.
    let same = pool("blue", r#"{"vlan":7, "subnet":"10.0.0.0/24"}"#);
    let same = outcomes(&store, &[same], false);
    assert_eq!(same.unwrap(), [Imported::Unchanged]);
    let other = [pool("blue", r#"{"subnet":"10.0.0.0/24","vlan":8}"#)];
    let refused = outcomes(&store, &other, false).unwrap_err();
    assert!(refused.contains("--replace"), "{refused}");
    assert!(value_of(&store, "blue").unwrap().contains("\"vlan\":7"));
    assert_eq!(
        outcomes(&store, &other, true).unwrap(),
        [Imported::Replaced]
    );
    assert!(value_of(&store, "blue").unwrap().contains("\"vlan\":8"));
}

#[test]
fn pools_that_overlap_are_refused_and_none_is_written() {
    let store = Store::default();
    let green = pool("green", r#"{"subnet":"10.0.1.0/24"}"#);
    outcomes(&store, &[green], false).unwrap();
    let red = pool("red", r#"{"subnet":"10.0.2.0/24"}"#);
    let wide = pool("wide", r#"{"subnet":"10.0.0.0/16"}"#);
    let refused = outcomes(&store, &[red, wide], false).unwrap_err();
    assert!(
        refused.starts_with("pool wide (") || refused.starts_with("pool red ("),
        "{refused}"
    );
    assert_eq!(
        (value_of(&store, "red"), value_of(&store, "wide")),
        (None, None)
    );
    // A replaced pool isn't compared with its own former definition.
    let wider = pool("green", r#"{"subnet":"10.0.0.0/16"}"#);
    let replaced = outcomes(&store, &[wider], true);
    assert_eq!(replaced.unwrap(), [Imported::Replaced]);
}

#[test]
fn what_is_held_keeps_its_range_and_each_loss_is_named() {
    let store = Store::default();
    let blue = |subnet: &str| pool("blue", &format!(r#"{{"subnet":"{subnet}"}}"#));
    outcomes(&store, &[blue("10.0.0.0/16")], false).unwrap();
    for last in 2..=30 {
        reserve(&store, "n1", "blue", &format!("10.0.9.{last}"));
    }
    let refused = outcomes(&store, &[blue("10.1.0.0/16")], true).unwrap_err();
    assert!(refused.starts_with("nothing is written"), "{refused}");
    assert_eq!(
        refused.matches("in no range of pool blue").count(),
        20,
        "{refused}"
    );
    assert!(refused.ends_with("… and 9 more"), "{refused}");
    assert!(value_of(&store, "blue").unwrap().contains("10.0.0.0/16"));
    // Twenty are all named.
    for last in 22..=30 {
        let held = held("n1", "blue", &format!("10.0.9.{last}"));
        store.delete(&held.address());
    }
    let refused = outcomes(&store, &[blue("10.1.0.0/16")], true).unwrap_err();
    assert_eq!(
        refused.matches("in no range of pool blue").count(),
        20,
        "{refused}"
    );
    assert!(!refused.contains("more"), "{refused}");
    // Exclusions don't affect held addresses.
    let excluded = pool(
        "blue",
        r#"{"subnet":"10.0.0.0/16","exclude":["10.0.9.0/24"]}"#,
    );
    let replaced = outcomes(&store, &[excluded], true);
    assert_eq!(replaced.unwrap(), [Imported::Replaced]);
}

#[test]
fn nothing_is_imported_before_all_nodes_are_reconciled() {
    let store = Store::default();
    mark_nodes(&mut engine(&store), &["n1".to_owned()]).unwrap();
    let blue = pool("blue", r#"{"subnet":"10.0.0.0/24"}"#);
    let refused = outcomes(&store, &[blue], false).unwrap_err();
    assert!(refused.contains("n1"), "{refused}");
    assert_eq!(value_of(&store, "blue"), None);
}

#[test]
fn the_contents_are_listed_in_order_and_foreign_ones_are_told_apart() {
    let store = Store::default();
    store.put(Key::Pool("blue".to_owned()), br#"{"subnet":"10.0.0.0/24"}"#);
    store.put(Key::Pool("bad".to_owned()), b"{}");
    reserve(&store, "n1", "blue", "10.0.0.9");
    reserve(&store, "n2", "blue", "10.0.0.10");
    store.put(Key::Address("blue".to_owned(), [10, 0, 0, 2].into()), b"?");
    claim(&store, "n2", "green", "10.0.1.64/26");
    claim(&store, "n1", "green", "10.0.1.0/26");
    let engine = &mut engine(&store);
    let (good, bad): (Vec<_>, Vec<_>) = definitions(engine)
        .unwrap()
        .into_iter()
        .partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (1, 1));
    assert_eq!(good[0].as_ref().unwrap().name.as_str(), "blue");
    let held = held_addresses(engine, true).unwrap();
    let shown = |holder: &Option<Holder>| holder.as_ref().map(|holder| holder.node.clone());
    let held: Vec<_> = held
        .iter()
        .map(|held| (held.ip.to_string(), shown(&held.holder)))
        .collect();
    let of = |ip: &str, node: Option<&str>| (ip.to_owned(), node.map(str::to_owned));
    assert_eq!(
        held,
        [
            of("10.0.0.2", None),
            of("10.0.0.9", Some("n1")),
            of("10.0.0.10", Some("n2"))
        ]
    );
    let blocks = claimed_blocks(engine).unwrap();
    let blocks: Vec<_> = blocks
        .iter()
        .map(|claimed| (claimed.block.to_string(), claimed.node().to_owned()))
        .collect();
    let block = |block: &str, node: &str| (block.to_owned(), node.to_owned());
    assert_eq!(
        blocks,
        [block("10.0.1.0/26", "n1"), block("10.0.1.64/26", "n2")]
    );
}

#[test]
fn a_forgotten_node_holds_nothing_and_others_keep_what_they_have() {
    let store = Store::default();
    store.put(Key::Node("n1".to_owned()), b"registration");
    for (node, ip) in [("n1", "10.0.0.9"), ("n2", "10.0.0.10")] {
        reserve(&store, node, "blue", ip);
    }
    claim(&store, "n1", "green", "10.0.1.0/26");
    claim(&store, "n2", "green", "10.0.1.64/26");
    store.put(
        Key::Block("green".to_owned(), "10.0.1.128/26".parse().unwrap()),
        b"?",
    );
    let engine = &mut engine(&store);
    let holdings = NodeHoldings::read(engine, "n1").unwrap();
    assert!(!holdings.is_empty());
    assert_eq!((holdings.addresses.len(), holdings.blocks.len()), (1, 1));
    assert_eq!(holdings.foreign_blocks.len(), 1);
    let forgotten = holdings.release(engine).unwrap();
    assert_eq!((forgotten.addresses, forgotten.blocks.len()), (1, 1));
    assert_eq!(
        (forgotten.changed_blocks.len(), forgotten.reserved_meanwhile),
        (0, 0)
    );
    let again = NodeHoldings::read(engine, "n1").unwrap();
    assert!(again.addresses.is_empty() && again.blocks.is_empty() && again.is_empty());
    let other = NodeHoldings::read(engine, "n2").unwrap();
    assert_eq!((other.addresses.len(), other.blocks.len()), (1, 1));
}

#[test]
fn a_node_of_which_anything_is_left_is_known() {
    let rest: [fn(&Store); 4] = [
        |store| store.put(Key::Node("n1".to_owned()), b"registration"),
        |store| store.put(Key::Mark("n1".to_owned()), b""),
        |store| reserve(store, "n1", "blue", "10.0.0.9"),
        |store| claim(store, "n1", "green", "10.0.1.0/26"),
    ];
    for leave in rest {
        let store = Store::default();
        leave(&store);
        let holdings = NodeHoldings::read(&mut engine(&store), "n1").unwrap();
        assert!(!holdings.is_empty(), "{holdings:?}");
    }
}

#[test]
fn a_node_that_returns_meanwhile_keeps_what_it_has() {
    let store = Store::default();
    let node = Key::Node("n1".to_owned());
    store.put(node.clone(), b"registration");
    reserve(&store, "n1", "blue", "10.0.0.9");
    claim(&store, "n1", "green", "10.0.1.0/26");
    let engine = &mut engine(&store);
    let holdings = NodeHoldings::read(engine, "n1").unwrap();
    store.put(node.clone(), b"another one");
    let refused = holdings.release(engine).unwrap_err();
    assert_eq!(refused.code, cni::code::TRY_AGAIN_LATER);
    assert!(refused.msg.ends_with("nothing is released"), "{refused}");
    assert!(
        engine
            .get(held("n1", "blue", "10.0.0.9").address())
            .unwrap()
            .is_some()
    );
    // A block that was claimed again after it was read is a different claim.
    store.delete(&node);
    let holdings = NodeHoldings::read(engine, "n1").unwrap();
    claim(&store, "n1", "green", "10.0.1.0/26");
    reserve(&store, "n1", "blue", "10.0.0.11");
    let forgotten = holdings.release(engine).unwrap();
    assert_eq!((forgotten.addresses, forgotten.blocks.len()), (1, 0));
    assert_eq!(
        (forgotten.changed_blocks.len(), forgotten.reserved_meanwhile),
        (1, 1)
    );
}
