//! Owners: all containers of an owner have one address, and nobody else has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Barrier, Mutex};
use std::thread;

use cluster::{Held, Restored};
use cni::{Environment, IpConfig, code};
use harness::{Address, Command, Outcome};
use serde_json::{Value, json};

use super::memory_store::{Cluster, Faults};
use super::restored::reconcile;
use super::rules::{blue, cluster_of_blue, held};
use super::traffic::{Traffic, attachment as container, call, node};
use super::{CALLS, cluster_of_two_pools, judged, nodes, run};

/// What the attachment of an owner in a history begins with.
pub(crate) const PREFIX: &str = "owner/";

/// Faults of a store that loses requests and answers, and changes late.
const FAULTS: Faults = Faults {
    lost_requests: 10,
    lost_answers: 10,
    late: 5,
    unable_lists: 0,
    old_looks: 20,
};

/// An owner in a history.
pub(crate) fn attachment(owner: &str) -> String {
    format!("{PREFIX}{owner}:eth0")
}

/// The addresses in the store; of an owner's key, only the one that was created first.
pub(crate) fn counted(cluster: &Cluster) -> Vec<Held> {
    let mut all = cluster.addresses();
    all.sort_by_key(|held| held.created);
    let mut known = BTreeSet::new();
    all.retain(|held| {
        let hash = held.holder.as_ref().and_then(|holder| holder.owner_hash());
        hash.is_none_or(|hash| known.insert(hash))
    });
    all
}

fn pools_of(owner: &str) -> Value {
    json!([{"name": "blue", "owner": owner}, {"name": "green", "owner": owner}])
}

fn of_blue(owner: &str) -> Value {
    json!([{"name": "blue", "owner": owner}])
}

/// A cluster whose engine refuses a second address of an owner, or doesn't.
fn engines() -> [Cluster; 2] {
    [true, false].map(|refuses_second| {
        let cluster = cluster_of_two_pools();
        cluster.lock().refuses_second = refuses_second;
        cluster
    })
}

/// Addresses of each owner, as its ADDs have named them.
type Named = Mutex<BTreeMap<String, BTreeSet<Vec<IpAddr>>>>;

/// A node's containers of all owners come and go.
fn run_owners(traffic: &Traffic<'_>, on: &cluster::Node, owners: usize, named: &Named) {
    for i in 0..CALLS / 3 {
        let owner = format!("vm-{}", i % owners);
        let machine = on.machine.as_ref().unwrap();
        let (id, started) = (format!("{machine}.{owner}.{i}"), traffic.now());
        if let Ok(ips) = traffic.add(on, &id, &pools_of(&owner)) {
            let mut named = named.lock().unwrap();
            let of_owner = named.entry(owner.clone()).or_default();
            if of_owner.is_empty() {
                let address = |(pool, ip): (&str, &IpAddr)| Address {
                    pool: pool.to_owned(),
                    ip: *ip,
                };
                let given = ["blue", "green"].into_iter().zip(&ips).map(address);
                let given = Outcome::Succeeded(given.collect());
                traffic.note(attachment(&owner), started, Command::Add(given));
            }
            of_owner.insert(ips);
        }
        if i % 3 != 0 {
            let _ = traffic.del(on, &id, &json!({}));
        }
    }
}

#[test]
fn all_adds_of_an_owner_name_one_address_that_nobody_else_has() {
    for cluster in engines() {
        for faults in [Faults::default(), FAULTS] {
            let traffic = Traffic::new(&cluster, faults);
            let (named, nodes) = (Named::default(), nodes());
            thread::scope(|scope| {
                for on in &nodes {
                    scope.spawn(|| run_owners(&traffic, on, 4, &named));
                }
                run(&traffic, &nodes, &(0..CALLS));
            });
            cluster.settle();
            let named = named.into_inner().unwrap();
            assert_eq!(named.len(), 4);
            assert!(named.values().all(|ips| ips.len() == 1), "{named:#?}");
            let found = judged(&cluster, &traffic, faults.lost_answers == 0);
            assert!(found.is_empty(), "{found:#?}");
            for held in cluster.addresses() {
                cluster.lose(&held.key);
            }
        }
    }
}

/// First ADDs of an owner on as many nodes, at once.
fn first_adds(cluster: &Cluster, faults: Faults, number: usize) -> BTreeSet<Vec<IpAddr>> {
    let (traffic, barrier) = (Traffic::new(cluster, faults), Barrier::new(number));
    let first = |i: usize| {
        barrier.wait();
        let id = format!("c{i}");
        traffic.add(&node(&format!("n{i}")), &id, &pools_of("vm"))
    };
    thread::scope(|scope| {
        let first = &first;
        let all: Vec<_> = (0..number).map(|i| scope.spawn(move || first(i))).collect();
        let answers = all.into_iter().map(|one| one.join().unwrap().unwrap());
        answers.collect()
    })
}

#[test]
fn two_and_twenty_first_adds_at_once_name_one_address() {
    for number in [2, 20] {
        for _ in 0..10 {
            for cluster in engines() {
                let refuses_second = cluster.lock().refuses_second;
                assert_eq!(first_adds(&cluster, FAULTS, number).len(), 1);
                cluster.settle();
                if refuses_second {
                    assert_eq!(cluster.addresses().len(), 2);
                }
            }
        }
    }
}

#[test]
fn an_owner_keeps_its_address_through_del_gc_and_a_failed_add() {
    let cluster = cluster_of_blue();
    cluster.define("one", r#"{"subnet":"10.1.0.0/30"}"#);
    let calls = Traffic::new(&cluster, Faults::default());
    let ips = calls.add(&node("a"), "c1", &of_blue("vm")).unwrap();
    // It isn't the attachment's, even if the holder names that.
    let mut holder = cluster.addresses().remove(0).holder.unwrap();
    holder.container_id = "c1".to_owned();
    assert!(!holder.is_attachment("net", &container("c1")));
    // A migration: another node's container has it, too.
    assert_eq!(calls.add(&node("b"), "c2", &of_blue("vm")).unwrap(), ips);
    calls.del(&node("a"), "c1", &json!({})).unwrap();
    let prev = json!({"ips": [{"address": format!("{}/29", ips[0])}], "pools": of_blue("vm")});
    calls
        .del(&node("b"), "c2", &json!({"prevResult": prev}))
        .unwrap();
    calls.gc(&node("a"), &[]).unwrap();
    calls.gc(&node("b"), &[]).unwrap();
    calls
        .add(&node("a"), "c0", &json!([{"name": "one"}]))
        .unwrap();
    let both = json!([{"name": "blue", "owner": "vm"}, {"name": "one"}]);
    calls.add(&node("a"), "c3", &both).unwrap_err();
    assert_eq!(calls.add(&node("c"), "c4", &of_blue("vm")).unwrap(), ips);
    let store = &mut cluster.store(Faults::default(), 0);
    let all: Vec<_> = ["a", "b", "c"]
        .iter()
        .flat_map(|name| cluster::of_node(store, name).unwrap())
        .collect();
    assert_eq!(all.len(), 1, "an owner's address is of no node: {all:?}");
}

#[test]
fn another_owner_pool_or_place_is_another_address() {
    let cluster = cluster_of_two_pools();
    let calls = Traffic::new(&cluster, Faults::default());
    let both = calls.add(&node("a"), "c1", &pools_of("vm")).unwrap();
    let swapped = json!([{"name": "green", "owner": "vm"}, {"name": "blue", "owner": "vm"}]);
    let swapped = calls.add(&node("a"), "c2", &swapped).unwrap();
    assert!(both.iter().all(|ip| !swapped.contains(ip)));
    let other = calls.add(&node("a"), "c3", &of_blue("other")).unwrap();
    assert!(!both.contains(&other[0]) && !swapped.contains(&other[0]));
    assert_eq!(held(&cluster).len(), 5);
}

#[test]
fn outside_of_a_changed_pool_an_address_stays_and_does_not_count() {
    for cluster in engines() {
        let calls = Traffic::new(&cluster, Faults::default());
        let add = |id: &str| calls.add(&node("a"), id, &of_blue("vm")).unwrap();
        let first = add("c1");
        cluster.define("blue", r#"{"subnet":"10.9.0.0/27"}"#);
        let second = add("c2");
        assert_ne!(first, second);
        assert_eq!(add("c3"), second);
        let key = cluster.addresses().into_iter().map(|held| held.key.ip);
        assert_eq!(key.collect::<Vec<_>>(), [first[0], second[0]]);
        cluster.define("blue", r#"{"subnet":"10.0.0.0/27"}"#);
        assert_eq!(add("c4"), first);
        // It may be in a pool that is tried when this one is full.
        cluster.define("blue", r#"{"subnet":"10.8.0.0/27"}"#);
        cluster.define("spare", r#"{"subnet":"10.9.0.0/27"}"#);
        let or = json!([{"name": "blue", "owner": "vm", "or": [{"name": "spare"}]}]);
        assert_eq!(calls.add(&node("a"), "c5", &or).unwrap(), second);
    }
}

#[test]
fn an_owners_requested_address_is_its_only_one() {
    let cluster = cluster_of_blue();
    let calls = Traffic::new(&cluster, Faults::default());
    let pinned = |owner: &str, last: u8| {
        let ip = format!("10.0.0.{last}");
        let pools = json!([{"name": "blue", "owner": owner, "requested-ip": ip}]);
        calls.add(&node("a"), "c1", &pools)
    };
    let five = IpAddr::from([10, 0, 0, 5]);
    for _ in 0..2 {
        assert_eq!(pinned("vm", 5).unwrap(), [five]);
    }
    for (owner, last, why) in [
        ("vm", 6, "not its owner's 10.0.0.5"),
        ("other", 5, "reserved to vm as eth0 of network net"),
    ] {
        let refused = pinned(owner, last).unwrap_err();
        assert_eq!(refused.code, code::REQUESTED_TAKEN);
        assert!(refused.msg.contains(why), "{refused}");
    }
    assert_eq!(held(&cluster).len(), 1);
}

#[test]
fn a_full_pool_has_no_address_for_a_new_owner_and_the_old_one_for_an_old_owner() {
    let cluster = cluster_of_blue();
    let calls = Traffic::new(&cluster, Faults::default());
    let ips = calls.add(&node("a"), "c1", &of_blue("vm")).unwrap();
    for i in 2..6 {
        calls.add(&node("a"), &format!("c{i}"), &blue()).unwrap();
    }
    let refused = calls.add(&node("a"), "c6", &of_blue("other")).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER);
    assert_eq!(calls.add(&node("b"), "c7", &of_blue("vm")).unwrap(), ips);
}

#[test]
fn the_answer_lists_the_addresses_of_owners_and_check_wants_their_owner() {
    let cluster = cluster_of_two_pools();
    let environment = Environment::default();
    let store = &mut cluster.store(Faults::default(), 0);
    let pools = json!([{"name": "blue", "owner": "vm"}, {"name": "green"}]);
    let prev = json!({"cniVersion": "1.1.0", "ips": [], "owned": ["192.0.2.1"], "pools": pools});
    let added = call(&environment, &json!({"prevResult": prev}));
    let answer = cluster::add(store, &node("a"), &container("c1"), &added).unwrap();
    let ips: Vec<IpAddr> = answer.ips.iter().map(IpConfig::ip).collect();
    let owned: Value = serde_json::from_str(answer.other("owned").unwrap().get()).unwrap();
    assert_eq!(owned, json!(["192.0.2.1", ips[0]]));
    let mut check = |on: &str, pools: &Value| {
        let addresses: Value = ips
            .iter()
            .map(|ip| json!({"address": format!("{ip}/28")}))
            .collect();
        let prev = json!({"cniVersion": "1.1.0", "ips": addresses, "pools": pools});
        let call = call(&environment, &json!({"prevResult": prev}));
        cluster::check(store, &node(on), &container("c1"), &call)
    };
    check("a", &pools).unwrap();
    check("a", &json!([])).unwrap();
    let other = json!([{"name": "blue", "owner": "other"}, {"name": "green"}]);
    let refused = check("a", &other).unwrap_err();
    assert_eq!(refused.code, code::NOT_RESERVED);
    let msg = "should be reserved to other, and is reserved to vm as eth0 of network net";
    assert!(refused.msg.ends_with(msg), "{refused}");
}

#[test]
fn an_unreadable_list_of_owned_addresses_is_refused_before_one_is_claimed() {
    let cluster = cluster_of_two_pools();
    let environment = Environment::default();
    let store = &mut cluster.store(Faults::default(), 0);
    let pools = json!([{"name": "green"}, {"name": "blue", "owner": "vm"}]);
    let prev = json!({"cniVersion": "1.1.0", "ips": [], "owned": 7, "pools": pools});
    let added = call(&environment, &json!({"prevResult": prev}));
    let refused = cluster::add(store, &node("a"), &container("c1"), &added).unwrap_err();
    assert_eq!(refused.code, code::INVALID_CONFIG);
    assert!(refused.msg.starts_with("owned: "), "{refused}");
    assert!(held(&cluster).is_empty());
}

#[test]
fn after_an_older_state_the_records_of_an_owner_claim_its_address_again() {
    for cluster in engines() {
        let calls = Traffic::new(&cluster, Faults::default());
        let older = cluster.snapshot();
        let ips = calls.add(&node("a"), "c1", &of_blue("vm")).unwrap();
        calls.add(&node("b"), "c2", &of_blue("vm")).unwrap();
        cluster.restore(older);
        let claim = |on: &str, id: &str| reconcile(&cluster, &node(on), id, &of_blue("vm"), &ips);
        assert_eq!(claim("a", "c1"), [Restored::Claimed]);
        assert_eq!(claim("b", "c2"), [Restored::Ours]);
        assert_eq!(calls.add(&node("c"), "c3", &of_blue("vm")).unwrap(), ips);
        // Of a machine that is stopped, nothing claims it: it is anybody's.
        for held in cluster.addresses() {
            cluster.lose(&held.key);
        }
        let other = json!([{"name": "blue", "requested-ip": ips[0].to_string()}]);
        assert_eq!(calls.add(&node("c"), "c5", &other).unwrap(), ips);
        // Whatever else the owner has, a container's address isn't given to others.
        for held in cluster.addresses() {
            cluster.lose(&held.key);
        }
        let others = json!([{"name": "blue", "owner": "vm", "exclude": [ips[0].to_string()]}]);
        calls.add(&node("c"), "c4", &others).unwrap();
        assert_eq!(claim("a", "c1"), [Restored::Claimed]);
    }
}
