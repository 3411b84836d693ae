//! Histories of concurrent calls on an engine in memory. The checker of the end-to-end tests
//! verifies that no address is given twice, and that none is lost.

mod adds;
mod blocks;
mod claims;
mod definitions;
mod interrupted;
mod lost_answers;
mod lost_blocks;
mod memory_engine;
mod reconciled;
mod registrations;
mod traffic;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use cluster::{Key, Node};
use cni::Environment;
use harness::{Address, History, Observation};

use memory_engine::{Faults, Store};
use traffic::{Caller, Traffic};

const NODES: usize = 4;
const CALLERS: usize = 3;
const CALLS: usize = 60;

/// The nodes, each with folders below this one.
fn nodes(folder: &std::path::Path) -> Vec<Node> {
    (0..NODES)
        .map(|number| Node {
            name: format!("n{number}"),
            is_named: true,
            state_dir: folder.join(format!("{number}/state")),
            cache_dir: folder.join(format!("{number}/cache")),
            prefix: "/ipam".to_owned(),
            endpoints: vec!["memory".to_owned()],
            timeout: Duration::from_secs(10),
        })
        .collect()
}

/// The addresses in the store with their holders, by both of their keys.
fn observe(store: &Store, traffic: &Traffic<'_>) -> Observation {
    let started = traffic.now();
    let (mut addresses, mut index) = (Vec::new(), Vec::new());
    for (key, value) in store.objects() {
        let holder = cluster::Holder::parse(&value)
            .map(|holder| format!("{}/{}:{}", holder.node, holder.container_id, holder.ifname));
        let (Some(holder), address) = (holder, |pool: &str, ip| Address {
            pool: pool.to_owned(),
            ip,
        }) else {
            continue;
        };
        match key {
            Key::Address(pool, ip) => addresses.push((address(&pool, ip), holder)),
            Key::Held(held) => index.push((address(held.pool.as_str(), held.ip), holder)),
            _ => {}
        }
    }
    Observation {
        started,
        ended: traffic.now(),
        addresses,
        index: Some(index),
        sent_once: true,
        collected: false,
    }
}

/// Callers on all nodes add and delete containers while the engine has these faults. Then GC runs
/// on each node without faults. Returns the violations.
fn violations(faults: Faults, after: impl FnOnce(&Store)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let nodes = nodes(folder.path());
    let store = Store::default();
    for (pool, subnet) in [("blue", "10.0.0.0/27"), ("green", "fd00::/124")] {
        let value = format!(r#"{{"subnet":"{subnet}"}}"#);
        store.put(Key::Pool(pool.to_owned()), value.as_bytes());
    }
    let environment = Environment::default();
    let traffic = Traffic::new(&store, faults);
    thread::scope(|scope| {
        for node in &nodes {
            for number in 0..CALLERS {
                let (traffic, environment) = (&traffic, &environment);
                scope.spawn(move || {
                    Caller::new(traffic, node, environment, number).call(CALLS);
                });
            }
        }
    });
    store.settle();
    after(&store);
    let before = observe(&store, &traffic);
    let calls = traffic.calls();
    let history = History::new(calls.clone(), Vec::new()).unwrap();
    let mut valid: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for attachment in history.living() {
        let (node, container) = attachment.split_once('/').unwrap();
        let container = container.trim_end_matches(":eth0").to_owned();
        valid.entry(node).or_default().push(container);
    }
    for node in &nodes {
        let living = valid.remove(node.name.as_str()).unwrap_or_default();
        traffic.collect(node, &environment, &living);
    }
    let mut collected = observe(&store, &traffic);
    collected.collected = true;
    let (succeeded, all) = history.adds();
    assert!(succeeded > all / 4, "{succeeded} of {all} ADDs succeeded");
    let judged = History::new(calls, vec![before, collected]).unwrap();
    let violations = judged.violations();
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn no_address_is_given_twice_and_none_is_lost() {
    let found = violations(Faults::default(), |_| ());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn lost_requests_and_answers_give_no_address_twice_and_lose_none() {
    let faults = Faults {
        lost_requests: 10,
        lost_answers: 10,
        late: 5,
    };
    let found = violations(faults, |_| ());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_address_that_the_engine_loses_is_found() {
    let found = violations(Faults::default(), |store| {
        let address = store.objects().into_iter();
        let mut address = address.filter(|(key, _)| matches!(key, Key::Address(..)));
        store.delete(&address.next().unwrap().0);
    });
    assert!(!found.is_empty());
}

/// A store with the pool `blue`, which has five addresses.
fn store_of_blue() -> Store {
    let store = Store::default();
    store.put(Key::Pool("blue".to_owned()), br#"{"subnet":"10.0.0.0/29"}"#);
    store
}

#[test]
fn an_engine_of_an_older_state_gives_nothing_before_its_nodes_are_reconciled() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = nodes(folder.path());
    let store = store_of_blue();
    let environment = Environment::default();
    let traffic = Traffic::new(&store, Faults::default());
    let caller = |node| Caller::new(&traffic, node, &environment, 0);
    assert!(caller(&nodes[0]).add("a", &["blue"]).is_ok());
    let older = store.snapshot();
    let given = caller(&nodes[0]).add("b", &["blue"]).unwrap();
    store.restore(older);
    let refused = caller(&nodes[0]).add("c", &["blue"]).unwrap_err();
    assert!(refused.msg.contains("was restored"), "{refused}");
    // The mark of one node holds back all nodes.
    let refused = caller(&nodes[1]).add("d", &["blue"]).unwrap_err();
    assert!(refused.msg.contains("ipamctl reconcile: n0"), "{refused}");
    // After the node has claimed its address again, addresses are given.
    traffic.reconcile(&nodes[0], &environment, "b", "blue", given[0]);
    let next = caller(&nodes[1]).add("d", &["blue"]).unwrap();
    assert_ne!(next, given);
}

#[test]
fn of_two_machines_with_one_name_only_one_gives_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = nodes(folder.path());
    let store = store_of_blue();
    let environment = Environment::default();
    let traffic = Traffic::new(&store, Faults::default());
    assert!(
        Caller::new(&traffic, &nodes[0], &environment, 0)
            .add("a", &["blue"])
            .is_ok()
    );
    let impostor = Node {
        name: nodes[0].name.clone(),
        ..nodes[1].clone()
    };
    let caller = Caller::new(&traffic, &impostor, &environment, 1);
    let refused = caller.add("b", &["blue"]).unwrap_err();
    assert_eq!(refused.code, cni::code::INVALID_CONFIG, "{refused}");
    let before = store.objects();
    assert!(traffic.try_collect(&impostor, &environment, &[]).is_err());
    assert_eq!(store.objects(), before);
}
