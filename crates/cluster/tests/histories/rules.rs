//! One rule at a time, without faults.

use harness::assert_has;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use cluster::{Held, Node, Store};
use cni::{Environment, code};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::memory_store::{Cluster, Faults};
use super::traffic::{Traffic, attachment, call, node};

/// A cluster with the pool `blue`, which has five addresses.
pub(crate) fn cluster_of_blue() -> Cluster {
    let cluster = Cluster::default();
    cluster.define("blue", r#"{"subnet":"10.0.0.0/29"}"#);
    cluster
}

fn calls(cluster: &Cluster) -> Traffic<'_> {
    Traffic::new(cluster, Faults::default())
}

pub(crate) fn blue() -> Value {
    json!([{"name": "blue"}])
}

/// The addresses with their containers.
pub(crate) fn held(cluster: &Cluster) -> Vec<(String, String)> {
    let describe = |held: Held| {
        let container = held
            .holder
            .map_or("-".to_owned(), |holder| holder.container_id);
        (held.key.to_string(), container)
    };
    cluster.addresses().into_iter().map(describe).collect()
}

fn prev(ips: &[IpAddr], pools: &Value) -> Value {
    let ips: Value = ips
        .iter()
        .map(|ip| json!({"address": format!("{ip}/29")}))
        .collect();
    json!({"prevResult": {"cniVersion": "1.1.0", "ips": ips, "pools": pools}})
}

#[test]
fn a_pool_gives_each_address_once_and_then_says_that_it_is_full() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let mut given: Vec<IpAddr> = (0..5)
        .map(|i| calls.add(&node("a"), &format!("c{i}"), &blue()).unwrap()[0])
        .collect();
    given.sort();
    let all: Vec<IpAddr> = (2..7).map(|i| IpAddr::from([10, 0, 0, i])).collect();
    assert_eq!(given, all);
    let refused = calls.add(&node("b"), "c5", &blue()).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER);
    let msg = "pool blue (10.0.0.1-10.0.0.6) has no address left: all 5 are reserved";
    assert_eq!(refused.msg, msg);
    let environment = Environment::default();
    let keys = json!({"prevResult": {"cniVersion": "1.1.0", "pools": blue()}});
    let mut store = cluster.store(Faults::default(), 0);
    // Kubernetes evicts the pods of a node that isn't ready.
    cluster::status(&mut store, "x", &call(&environment, &keys)).unwrap();
}

#[test]
fn a_status_fails_if_no_alternative_has_a_definition_with_addresses() {
    let cluster = cluster_of_blue();
    let none = r#"{"subnet":"10.1.0.0/30","exclude":["10.1.0.0/30"]}"#;
    cluster.define("none", none);
    let environment = Environment::default();
    let status = |names: &[&str]| {
        let alternatives: Vec<Value> = names.iter().map(|name| json!([{"name": name}])).collect();
        let keys = json!({"prevResult": {"cniVersion": "1.1.0", "alternatives": alternatives}});
        let mut store = cluster.store(Faults::default(), 0);
        cluster::status(&mut store, "x", &call(&environment, &keys))
    };
    status(&["missing", "none", "blue"]).unwrap();
    let refused = status(&["missing", "none"]).unwrap_err();
    assert_eq!(refused.code, code::UNAVAILABLE);
    assert_has(
        &refused.msg,
        ["no pool \"missing\"", "all 0 are reserved, 2 are excluded"],
    );
}

#[test]
fn the_last_free_address_of_a_large_pool_is_found() {
    let cluster = Cluster::default();
    cluster.define("blue", r#"{"subnet":"10.0.0.0/22"}"#);
    let calls = calls(&cluster);
    for i in 0..1021 {
        calls.add(&node("a"), &format!("c{i}"), &blue()).unwrap();
    }
    assert!(calls.add(&node("a"), "one-more", &blue()).is_err());
}

#[test]
fn a_nodes_entry_for_a_defined_pool_has_no_space() {
    let cluster = cluster_of_blue();
    let elsewhere = json!([{"name": "blue", "space": "red"}]);
    let refused = calls(&cluster).add(&node("a"), "c1", &elsewhere);
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, code::INVALID_CONFIG);
    let place = "prevResult.pools[0].space: memory:pools/blue defines the pool";
    assert!(refused.msg.starts_with(place), "{refused}");
    assert!(held(&cluster).is_empty());
}

#[test]
fn a_full_pool_that_cannot_be_listed_is_named() {
    let cluster = Cluster::default();
    cluster.define("blue", r#"{"subnet":"10.0.0.0/28"}"#);
    let unable = Faults {
        unable_lists: 100,
        ..Faults::default()
    };
    let calls = Traffic::new(&cluster, unable);
    let mut added = (0..14).map(|i| calls.add(&node("a"), &format!("c{i}"), &blue()));
    let refused = added.find_map(Result::err).unwrap();
    let pool = "addresses of pool blue (10.0.0.1-10.0.0.14) were tried, all reserved";
    assert!(refused.msg.starts_with("no list; "), "{refused}");
    assert!(refused.msg.ends_with(pool), "{refused}");
}

#[test]
fn an_address_that_a_cache_still_has_is_found_in_a_list() {
    let cluster = cluster_of_blue();
    for old in [
        Faults::default(),
        Faults {
            old_looks: 100,
            ..Faults::default()
        },
    ] {
        let calls = Traffic::new(&cluster, old);
        let all: Vec<String> = (0..5).map(|i| format!("c{i}")).collect();
        for id in &all {
            calls.add(&node("a"), id, &blue()).unwrap();
        }
        let refused = calls.add(&node("a"), "one-more", &blue()).unwrap_err();
        assert_eq!(refused.code, code::TRY_AGAIN_LATER);
        for id in &all {
            calls.del(&node("a"), id, &json!({})).unwrap();
        }
    }
}

#[test]
fn if_one_pool_is_full_none_gives_an_address() {
    let cluster = cluster_of_blue();
    cluster.define("one", r#"{"subnet":"10.1.0.0/30"}"#);
    let calls = calls(&cluster);
    let both = json!([{"name": "blue"}, {"name": "one"}]);
    calls.add(&node("a"), "first", &both).unwrap();
    let before = held(&cluster);
    let refused = calls.add(&node("a"), "second", &both).unwrap_err();
    assert!(refused.msg.starts_with("pool one "), "{refused}");
    assert_eq!(held(&cluster), before);
}

#[test]
fn a_requested_address_is_given_or_its_holder_is_named() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let pinned = json!([{"name": "blue", "requested-ip": "10.0.0.5"}]);
    let ips = calls.add(&node("a"), "c1", &pinned).unwrap();
    assert_eq!(ips, [IpAddr::from([10, 0, 0, 5])]);
    // A second ADD of the attachment finds its own claim.
    assert_eq!(calls.add(&node("a"), "c1", &pinned).unwrap(), ips);
    let refused = calls.add(&node("b"), "c2", &pinned).unwrap_err();
    assert_eq!(refused.code, code::REQUESTED_TAKEN);
    let holder = "is reserved to c1 eth0 of network net on node a";
    assert!(refused.msg.ends_with(holder), "{refused}");
}

#[test]
fn a_sticky_key_has_the_same_address_on_every_node_unless_it_is_taken() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let sticky = json!([{"name": "blue", "sticky": "prod/db-0"}]);
    let first = calls.add(&node("a"), "c1", &sticky).unwrap();
    let other = calls.add(&node("b"), "c2", &sticky).unwrap();
    assert_ne!(first, other);
    calls.del(&node("a"), "c1", &json!({})).unwrap();
    assert_eq!(calls.add(&node("c"), "c3", &sticky).unwrap(), first);
}

#[test]
fn an_address_of_another_space_is_another_one() {
    let cluster = Cluster::default();
    cluster.define("red", r#"{"subnet":"10.0.0.0/30","space":"red"}"#);
    cluster.define("blue", r#"{"subnet":"10.0.0.0/30"}"#);
    cluster.define("green", r#"{"subnet":"10.0.0.0/30"}"#);
    let calls = calls(&cluster);
    let red = json!([{"name": "red"}]);
    calls.add(&node("a"), "c1", &red).unwrap();
    calls.add(&node("a"), "c2", &blue()).unwrap();
    let names = [("10.0.0.2", "c2"), ("red/10.0.0.2", "c1")];
    let names = names.map(|(key, id)| (key.to_owned(), id.to_owned()));
    assert_eq!(held(&cluster), names);
    // A pool with another name, but in no other space, has the same addresses.
    let green = json!([{"name": "green"}]);
    calls.add(&node("a"), "c3", &green).unwrap_err();
    let keys = prev(&[IpAddr::from([10, 0, 0, 2])], &red);
    calls.del(&node("a"), "c1", &keys).unwrap();
    assert_eq!(held(&cluster).len(), 1);
}

#[test]
fn a_changed_definition_gives_no_address_twice_and_keeps_what_is_given() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let pinned = json!([{"name": "blue", "requested-ip": "10.0.0.5"}]);
    calls.add(&node("a"), "c1", &pinned).unwrap();
    cluster.define("blue", r#"{"subnet":"10.9.0.0/29"}"#);
    cluster.define("other", r#"{"subnet":"10.0.0.0/29"}"#);
    let other = json!([{"name": "other"}]);
    for i in 2..6 {
        calls.add(&node("b"), &format!("c{i}"), &other).unwrap();
    }
    calls.add(&node("b"), "c6", &other).unwrap_err();
    let keys = prev(&[IpAddr::from([10, 0, 0, 5])], &blue());
    calls.del(&node("a"), "c1", &keys).unwrap();
    calls.add(&node("b"), "c6", &other).unwrap();
}

#[test]
fn a_pool_without_a_definition_is_refused_by_its_place() {
    let refused = calls(&Cluster::default())
        .add(&node("a"), "c1", &blue())
        .unwrap_err();
    let msg = "prevResult.pools[0].name: memory has no pool \"blue\": memory:pools/blue is missing";
    assert_eq!((refused.code, &*refused.msg), (code::INVALID_CONFIG, msg));
}

#[test]
fn an_exclusion_of_the_definition_and_one_of_the_entry_both_count() {
    let cluster = Cluster::default();
    let definition = r#"{"subnet":"10.0.0.0/29","exclude":["10.0.0.2-10.0.0.4"]}"#;
    cluster.define("blue", definition);
    let entry = json!([{"name": "blue", "exclude": ["10.0.0.6"]}]);
    let calls = calls(&cluster);
    let ips = calls.add(&node("a"), "c1", &entry).unwrap();
    assert_eq!(ips, [IpAddr::from([10, 0, 0, 5])]);
    assert!(calls.add(&node("a"), "c2", &entry).is_err());
}

#[test]
fn del_releases_what_is_named_and_lists_if_that_is_less_than_the_pools() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let pin = |last: u8| json!([{"name": "blue", "requested-ip": format!("10.0.0.{last}")}]);
    let add_both = || {
        calls.add(&node("a"), "c1", &pin(2)).unwrap();
        calls.add(&node("a"), "c1", &pin(3)).unwrap();
    };
    let named = [IpAddr::from([10, 0, 0, 3])];
    add_both();
    // What is left is an earlier ADD's.
    calls.del(&node("a"), "c1", &prev(&named, &blue())).unwrap();
    assert_eq!(held(&cluster), [("10.0.0.2".to_owned(), "c1".to_owned())]);
    // A second DEL finds it.
    calls.del(&node("a"), "c1", &prev(&named, &blue())).unwrap();
    assert_eq!(held(&cluster), []);
    add_both();
    let unpooled = prev(&named, &json!([]));
    calls.del(&node("a"), "c1", &unpooled).unwrap();
    assert_eq!(held(&cluster), []);
}

#[test]
fn a_rollback_releases_only_what_it_names() {
    let cluster = cluster_of_blue();
    cluster.define("red", r#"{"subnet":"10.8.0.0/29","space":"red"}"#);
    let calls = calls(&cluster);
    for (name, ip) in [("blue", "10.0.0.2"), ("red", "10.8.0.2")] {
        let pinned = json!([{"name": name, "requested-ip": ip}]);
        calls.add(&node("a"), "c1", &pinned).unwrap();
    }
    let environment = Environment::default().with("IPAM_DELEGATED_ROLLBACK", "1");
    let rollback = |ips: &[IpAddr]| {
        let call = call(&environment, &prev(ips, &json!([])));
        let store = &mut cluster.store(Faults::default(), 0);
        cluster::del(store, &node("a"), &attachment("c1"), &call).unwrap();
    };
    rollback(&[]);
    assert_eq!(held(&cluster).len(), 2);
    rollback(&[IpAddr::from([10, 8, 0, 2])]);
    assert_eq!(held(&cluster), [("10.0.0.2".to_owned(), "c1".to_owned())]);
}

/// Two machines have one name, or a node was renamed, or its machine's ID has changed.
#[test]
fn another_machine_or_node_releases_nothing_and_says_so() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let ips = calls.add(&node("a"), "c1", &blue()).unwrap();
    let machine = Node {
        machine: Some("another".to_owned()),
        ..node("a")
    };
    let renamed = Node {
        name: "b".to_owned(),
        ..node("a")
    };
    let before = held(&cluster);
    for other in [&machine, &renamed] {
        calls.gc(other, &[]).unwrap();
        let refused = calls.del(other, "c1", &prev(&ips, &blue())).unwrap_err();
        assert_eq!(refused.code, code::NOT_RESERVED);
        assert!(refused.msg.contains("node-forget a"), "{refused}");
        // Another container of the same address is no concern of this one.
        calls.del(other, "c2", &prev(&ips, &blue())).unwrap();
        assert_eq!(held(&cluster), before);
    }
    // A list of the node's addresses finds it as well.
    assert!(calls.del(&machine, "c1", &json!({})).is_err());
    cluster.lose(&cluster.addresses()[0].key);
    calls.del(&renamed, "c1", &prev(&ips, &blue())).unwrap();
}

#[test]
fn a_late_release_deletes_no_later_claim() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let pinned = json!([{"name": "blue", "requested-ip": "10.0.0.2"}]);
    calls.add(&node("a"), "c1", &pinned).unwrap();
    let earlier = cluster.addresses().remove(0);
    calls.del(&node("a"), "c1", &json!({})).unwrap();
    calls.add(&node("a"), "c1", &pinned).unwrap();
    let mut store = cluster.store(Faults::default(), 0);
    let gone = store.release(&earlier).unwrap();
    assert_eq!(gone, cluster::Release::Gone);
    assert_eq!(held(&cluster).len(), 1);
}

#[test]
fn check_wants_every_address_of_a_pool_to_be_the_attachments() {
    let cluster = cluster_of_blue();
    let calls = calls(&cluster);
    let ips = calls.add(&node("a"), "c1", &blue()).unwrap();
    let environment = Environment::default();
    let check = |container: &str, keys: &Value| {
        let store = &mut cluster.store(Faults::default(), 0);
        let call = call(&environment, keys);
        cluster::check(store, &node("a"), &attachment(container), &call)
    };
    for pools in [blue(), json!([]), json!([{"name": "undefined"}])] {
        check("c1", &prev(&ips, &pools)).unwrap();
        let refused = check("c2", &prev(&ips, &pools)).unwrap_err();
        assert_eq!(refused.code, code::NOT_RESERVED, "{refused}");
    }
    cluster.lose(&cluster.addresses()[0].key);
    let refused = check("c1", &prev(&ips, &blue())).unwrap_err();
    assert!(refused.msg.ends_with("and is free"), "{refused}");
}

proptest! {
    #[test]
    fn whatever_is_added_and_deleted_the_store_has_exactly_what_lives(
        steps in proptest::collection::vec((0..3_u8, 0..8_u8, any::<bool>()), 0..60)
    ) {
        let cluster = cluster_of_blue();
        let calls = calls(&cluster);
        let mut living = BTreeMap::new();
        for (on, container, adds) in steps {
            let (node, container) = (node(&format!("n{on}")), format!("c{on}-{container}"));
            if !adds {
                calls.del(&node, &container, &json!({})).unwrap();
                living.remove(&container);
                continue;
            }
            let is_full = living.len() == 5;
            if let Entry::Vacant(new) = living.entry(container) {
                match calls.add(&node, new.key(), &blue()) {
                    Ok(ips) => {
                        new.insert(ips[0].to_string());
                    }
                    Err(_) => prop_assert!(is_full),
                }
            }
        }
        let mut expected: Vec<_> = living.into_iter().map(|(id, ip)| (ip, id)).collect();
        expected.sort();
        prop_assert_eq!(held(&cluster), expected);
    }
}
