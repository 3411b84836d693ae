//! ADD and STATUS of an allocator, with changes of others between its look and its change.

use std::net::IpAddr;

use cluster::{Change, Holder, Key, Node, address};
use cni::{Environment, Error, code};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::definitions::{held, reserve};
use super::interrupted::Interrupted;
use super::memory_engine::Store;
use super::traffic::{attachment, call};
use super::{nodes, store_of_blue};

/// `n0`, with its folders.
pub(crate) fn node() -> (TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = nodes(folder.path()).swap_remove(0);
    (folder, node)
}

/// ADD of `c1` with these entries of `prevResult.pools`.
pub(crate) fn add(
    engine: &mut Interrupted<'_>,
    node: &Node,
    pools: &Value,
) -> Result<Vec<IpAddr>, Error> {
    let environment = Environment::default();
    let result = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
    let call = call(&environment, &json!({"prevResult": result}));
    let result = address::add(engine, node, &attachment("c1"), &call)?;
    Ok(result.ips.iter().map(cni::IpConfig::ip).collect())
}

/// STATUS of the allocator `x`.
fn status(engine: &mut Interrupted<'_>, node: &Node, keys: &Value) -> Result<(), Error> {
    let environment = Environment::default();
    address::status(engine, node, "x", &call(&environment, keys))
}

/// The addresses of `blue` in the store.
pub(crate) fn reserved(store: &Store) -> Vec<IpAddr> {
    let address = |(key, _)| match key {
        Key::Address(_, ip) => Some(ip),
        _ => None,
    };
    store.objects().into_iter().filter_map(address).collect()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_address_outside_of_the_pools_ranges_refuses_no_add_that_tries_again() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let outside = cluster::HeldKey {
        node: node.name.clone(),
        ..held("n0", "blue", "10.9.0.9")
    };
    let value = Holder::new(&node.name, "net", &outside.attachment, None).to_value();
    store.put(Key::Held(outside), &value);
    let take_first = |store: &Store, change: &Change| {
        let Key::Address(_, ip) = &change.write[0].0 else {
            panic!("{change:?}");
        };
        reserve(store, "n2", "blue", &ip.to_string());
    };
    let engine = &mut Interrupted::once(&store, take_first);
    let given = add(engine, &node, &json!([{"name": "blue"}])).unwrap();
    assert_eq!((given.len(), reserved(&store).len()), (1, 2));
}

#[test]
fn an_add_follows_a_definition_that_is_changed_meanwhile() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let other = br#"{"subnet":"10.9.0.0/24"}"#;
    let engine = &mut Interrupted::once(&store, |store, _| {
        store.put(Key::Pool("blue".to_owned()), other);
    });
    let given = add(engine, &node, &json!([{"name": "blue"}])).unwrap();
    assert!(given[0].to_string().starts_with("10.9.0."), "{given:?}");
    assert_eq!(reserved(&store), given);
}

#[test]
fn a_definition_that_is_unchanged_costs_an_add_no_request() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let requests = |store: &Store| {
        let mut engine = Interrupted::new(store);
        add(&mut engine, &node, &json!([{"name": "blue"}])).unwrap();
        let environment = Environment::default();
        let call = call(&environment, &json!({}));
        let mut other = Interrupted::new(store);
        address::del(&mut other, &node, &attachment("c1"), &call).unwrap();
        engine.requests
    };
    // The first ADD registers the node.
    requests(&store);
    let known = requests(&store);
    let changed = br#"{"subnet":"10.0.0.0/29","vlan":7}"#;
    store.put(Key::Pool("blue".to_owned()), changed);
    let is_changed = requests(&store);
    assert!(is_changed > known, "{is_changed} > {known}");
    assert_eq!(requests(&store), known);
    std::fs::remove_dir_all(&node.cache_dir).unwrap();
    requests(&store);
    assert_eq!(requests(&store), known);
}

#[test]
fn the_addresses_of_an_add_without_an_answer_are_released_and_those_of_others_are_not() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let earlier = cluster::HeldKey {
        network: "net".parse().unwrap(),
        ..held(&node.name, "red", "10.7.0.9")
    };
    let value = Holder::new(&node.name, "net", &earlier.attachment, None).to_value();
    store.put(earlier.address(), &value);
    store.put(Key::Held(earlier), &value);
    let mut engine = Interrupted::new(&store);
    engine.loses_an_answer = true;
    let lost = add(&mut engine, &node, &json!([{"name": "blue"}])).unwrap_err();
    assert_eq!(lost.code, code::TRY_AGAIN_LATER);
    assert!(!lost.details.contains("not undone"), "{lost:?}");
    assert_eq!(reserved(&store), [ip("10.7.0.9")]);
}

#[test]
fn an_add_takes_addresses_of_up_to_thirty_pools() {
    let (_folder, node) = node();
    let store = Store::default();
    let mut pools = Vec::new();
    for number in 0..31 {
        let definition = format!(r#"{{"subnet":"10.0.{number}.0/29"}}"#);
        store.put(Key::Pool(format!("p{number}")), definition.as_bytes());
        pools.push(json!({"name": format!("p{number}")}));
    }
    let refused = add(&mut Interrupted::new(&store), &node, &json!(pools)).unwrap_err();
    assert!(refused.msg.contains("has 31 pools"), "{refused}");
    assert!(reserved(&store).is_empty());
    pools.pop();
    let given = add(&mut Interrupted::new(&store), &node, &json!(pools));
    assert_eq!(given.unwrap().len(), 30);
}

#[test]
fn status_names_all_full_pools_and_reserves_nothing() {
    let (_folder, node) = node();
    let store = Store::default();
    let pools = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    let keys = json!({"prevResult": {"cniVersion": "1.1.0", "ips": [], "pools": pools}});
    for (number, pool) in ["a", "b", "c"].iter().enumerate() {
        let definition = format!(r#"{{"subnet":"10.0.{number}.0/30"}}"#);
        store.put(Key::Pool((*pool).to_owned()), definition.as_bytes());
    }
    assert!(status(&mut Interrupted::new(&store), &node, &keys).is_ok());
    assert!(reserved(&store).is_empty());
    for (pool, ip) in [("a", "10.0.0.2"), ("c", "10.0.2.2")] {
        reserve(&store, "n2", pool, ip);
    }
    let refused = status(&mut Interrupted::new(&store), &node, &keys).unwrap_err();
    assert_eq!(refused.code, code::UNAVAILABLE);
    assert_eq!(refused.msg.matches("10.0.0.2").count(), 1, "{refused}");
    assert_eq!(refused.msg.matches("10.0.2.2").count(), 1, "{refused}");
    assert_eq!(refused.msg.matches("10.0.1.2").count(), 0, "{refused}");
}

#[test]
fn status_behind_a_selector_asks_for_the_right_to_reserve_and_reserves_nothing() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let behind = json!({"ipam": {"type": "x", "delegates": ["selector", "x"]}});
    let mut asked = Vec::new();
    {
        let note = |_: &Store, change: &Change| asked.push(change.clone());
        let engine = &mut Interrupted::with(&store, note);
        assert!(status(engine, &node, &behind).is_ok());
    }
    assert!(asked[0].dry_run && asked[0].write.len() == 2, "{asked:?}");
    assert!(reserved(&store).is_empty());
    let first = json!({"ipam": {"type": "x", "delegates": ["x"]}});
    let refused = status(&mut Interrupted::new(&store), &node, &first).unwrap_err();
    assert!(refused.msg.contains("prevResult.pools"), "{refused}");
    store.put(Key::Mark("n7".to_owned()), b"");
    let refused = status(&mut Interrupted::new(&store), &node, &behind).unwrap_err();
    assert!(refused.msg.contains("n7"), "{refused}");
}

/// DEL of `c1`.
pub(crate) fn del(store: &Store, node: &Node) -> Result<(), Error> {
    let environment = Environment::default();
    let call = call(&environment, &json!({}));
    address::del(&mut Interrupted::new(store), node, &attachment("c1"), &call)
}

#[test]
fn the_last_free_address_of_a_large_pool_is_given() {
    let (_folder, node) = node();
    let store = Store::default();
    store.put(Key::Pool("blue".to_owned()), br#"{"subnet":"10.0.0.0/22"}"#);
    let free = ip("10.0.2.77");
    let all = (2..1023u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
    for taken in all.filter(|ip| *ip != free) {
        store.put(Key::Address("blue".to_owned(), taken), b"another");
    }
    let pools = json!([{"name": "blue"}]);
    let given = add(&mut Interrupted::new(&store), &node, &pools);
    assert_eq!(given.unwrap(), [free]);
    let full = add(
        &mut Interrupted::new(&store),
        &node,
        &json!([{"name": "blue"}]),
    );
    assert_ne!(full.unwrap_err().code, code::INVALID_CONFIG);
}

/// CHECK of `c1` with this `prevResult`.
fn check(store: &Store, node: &Node, prev_result: &Value) -> Result<(), Error> {
    let environment = Environment::default();
    let call = call(&environment, &json!({"prevResult": prev_result}));
    address::check(&mut Interrupted::new(store), node, &attachment("c1"), &call)
}

#[test]
fn check_needs_an_address_of_the_attachment() {
    let (_folder, node) = node();
    let store = store_of_blue();
    let pools = json!([{"name": "blue"}]);
    let result = |ips: Value| json!({"cniVersion": "1.1.0", "ips": ips, "pools": pools});
    let none = check(&store, &node, &result(json!([]))).unwrap_err();
    assert_eq!(none.code, code::NOT_RESERVED);
    let given = add(&mut Interrupted::new(&store), &node, &pools).unwrap()[0];
    let own = json!([{"address": format!("{given}/29")}]);
    check(&store, &node, &result(json!([]))).unwrap();
    check(&store, &node, &result(own.clone())).unwrap();
    let other = (2..=6).map(|n| IpAddr::from([10, 0, 0, n]));
    let other = other.into_iter().find(|ip| *ip != given).unwrap();
    let others = json!([{"address": format!("{other}/29")}]);
    let lost = check(&store, &node, &result(others)).unwrap_err();
    assert_eq!(lost.code, code::NOT_RESERVED);
    // Without the pool's definition.
    store.delete(&Key::Pool("blue".to_owned()));
    check(&store, &node, &result(own.clone())).unwrap();
    del(&store, &node).unwrap();
    let undefined = check(&store, &node, &result(own)).unwrap_err();
    assert_eq!(undefined.code, code::INVALID_CONFIG);
}

const STICKY: &str = "10.0.0.5";

fn of_key(key: &str) -> Key {
    Key::StickyKey("blue".to_owned(), key.to_owned())
}

fn of_address(ip: IpAddr) -> Key {
    Key::StickyAddress("blue".to_owned(), ip)
}

/// The sticky keys and addresses in the store.
fn sticky(store: &Store) -> Vec<(Key, String)> {
    let is_sticky = |key: &Key| matches!(key, Key::StickyKey(..) | Key::StickyAddress(..));
    let objects = store.objects().into_iter();
    let sticky = objects.filter(|(key, _)| is_sticky(key));
    sticky
        .map(|(key, value)| (key, String::from_utf8(value).unwrap()))
        .collect()
}

#[test]
fn an_address_is_that_of_the_sticky_key_that_it_was_given_to_last() {
    let (_folder, node) = node();
    let store = store_of_blue();
    // Two concurrent ADDs have left both keys with the address.
    for key in ["a", "b"] {
        store.put(of_key(key), STICKY.as_bytes());
    }
    store.put(of_address(ip(STICKY)), b"b");
    let engine = &mut Interrupted::new(&store);
    let given = add(engine, &node, &json!([{"name": "blue", "sticky": "a"}]));
    assert_eq!(given.unwrap(), [ip(STICKY)]);
    let left = [
        (of_key("a"), STICKY.to_owned()),
        (of_address(ip(STICKY)), "a".to_owned()),
    ];
    assert_eq!(sticky(&store), left);
}

/// The address of the sticky key `a` is reserved by another node.
fn store_with_a_taken_sticky_address() -> Store {
    let store = store_of_blue();
    store.put(of_key("a"), STICKY.as_bytes());
    store.put(of_address(ip(STICKY)), b"a");
    reserve(&store, "n2", "blue", STICKY);
    store
}

#[test]
fn a_sticky_key_with_another_address_leaves_the_former_one() {
    let (_folder, node) = node();
    let store = store_with_a_taken_sticky_address();
    let engine = &mut Interrupted::new(&store);
    let given = add(engine, &node, &json!([{"name": "blue", "sticky": "a"}])).unwrap();
    assert_ne!(given, [ip(STICKY)]);
    let left = [
        (of_key("a"), given[0].to_string()),
        (of_address(given[0]), "a".to_owned()),
    ];
    assert_eq!(sticky(&store), left);
}

#[test]
fn a_sticky_key_is_remembered_though_others_change_the_former_one_meanwhile() {
    let (_folder, node) = node();
    let store = store_with_a_taken_sticky_address();
    let engine = &mut Interrupted::with(&store, |store, change| {
        if change.write.iter().any(|(key, _)| *key == of_key("a")) {
            store.put(of_address(ip(STICKY)), b"b");
        }
    });
    let given = add(engine, &node, &json!([{"name": "blue", "sticky": "a"}])).unwrap();
    let left = [
        (of_key("a"), given[0].to_string()),
        (of_address(ip(STICKY)), "b".to_owned()),
        (of_address(given[0]), "a".to_owned()),
    ];
    let mut found = sticky(&store);
    found.sort();
    let mut left = left.to_vec();
    left.sort();
    assert_eq!(found, left);
}
