//! Calls while the store answers nothing, or too late.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use cluster::Store;
use cni::{Cancellation, Environment, Error, code};
use serde_json::json;

use super::memory_store::{Cluster, Faults, MemoryStore};
use super::rules::cluster_of_blue;
use super::traffic::{Traffic, attachment, call, node};

const SHORT: Duration = Duration::from_millis(50);

/// An ADD whose store has these faults.
fn add(cluster: &Cluster, faults: Faults, seed: u64, timeout: Duration) -> Result<(), Error> {
    add_to(cluster.store(faults, seed).within(timeout))
}

fn add_to(mut store: MemoryStore<'_>) -> Result<(), Error> {
    let environment = Environment::default();
    let pools = json!([{"subnet": "10.0.0.0/29"}]);
    let keys = json!({"prevResult": {"cniVersion": "1.1.0", "ips": [], "pools": pools}});
    let call = call(&environment, &keys);
    cluster::add(&mut store, &node("a"), &attachment("c1"), &call).map(drop)
}

struct Cancelled;

impl Cancellation for Cancelled {
    fn is_cancelled(&self) -> bool {
        true
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Err(io::Error::other("nobody waits for it"))
    }
}

#[test]
fn a_cancelled_add_repeats_no_claim_and_undoes_what_it_may_have_claimed() {
    let cluster = cluster_of_blue();
    let faults = Faults {
        lost_answers: 50,
        ..Faults::default()
    };
    let mut cancelled = 0;
    for seed in 0..20 {
        let store = cluster.store(faults, seed).cancelled_by(&Cancelled);
        if let Err(error) = add_to(store) {
            assert_eq!(error.code, code::INTERRUPTED, "{error}");
            assert_eq!(cluster.addresses(), []);
            cancelled += 1;
        }
        let traffic = Traffic::new(&cluster, Faults::default());
        traffic.del(&node("a"), "c1", &json!({})).unwrap();
    }
    assert!(cancelled > 0);
}

#[test]
fn a_store_that_is_away_is_code_11_and_nothing_is_claimed() {
    let cluster = cluster_of_blue();
    let away = Faults {
        lost_requests: 100,
        ..Faults::default()
    };
    let refused = add(&cluster, away, 0, SHORT).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER, "{refused}");
    assert_eq!(cluster.addresses(), []);
    let store = &mut cluster.store(away, 0).within(SHORT);
    let environment = Environment::default();
    let call = call(&environment, &json!({}));
    let refused = cluster::del(store, &node("a"), &attachment("c1"), &call).unwrap_err();
    assert_eq!(refused.code, code::TRY_AGAIN_LATER, "{refused}");
}

#[test]
fn a_claim_whose_answer_was_lost_is_ours() {
    let cluster = cluster_of_blue();
    let faults = Faults {
        lost_answers: 50,
        ..Faults::default()
    };
    for seed in 0..20 {
        let traffic = Traffic::new(&cluster, Faults::default());
        add(&cluster, faults, seed, Duration::from_secs(60)).unwrap();
        assert_eq!(cluster.addresses().len(), 1);
        traffic.del(&node("a"), "c1", &json!({})).unwrap();
        assert_eq!(cluster.addresses(), []);
    }
}

#[test]
fn a_claim_that_comes_after_the_failed_add_is_announced_and_released_by_del() {
    let cluster = cluster_of_blue();
    let late = Faults {
        late: 100,
        ..Faults::default()
    };
    let refused = add(&cluster, late, 0, SHORT).unwrap_err();
    assert_eq!(refused.code, code::UNKNOWN_OUTCOME, "{refused}");
    cluster.settle();
    let traffic = Traffic::new(&cluster, Faults::default());
    traffic.del(&node("a"), "c1", &json!({})).unwrap();
    assert_eq!(cluster.addresses(), []);
}

#[test]
fn an_undoing_has_one_more_timeout() {
    let cluster = cluster_of_blue();
    let store = cluster
        .store(Faults::default(), 0)
        .within(Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(2));
    assert!(store.time().left().is_zero());
    store.time().renew();
    assert!(!store.time().left().is_zero());
}
