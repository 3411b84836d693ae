//! What libnetwork's own tests of its allocator ask for (`ipam/allocator_test.go` and
//! `ipam/parallel_test.go` of moby/libnetwork, 35 tests), over the wire.
//!
//! | tests of libnetwork | here |
//! |---|---|
//! | `AddReleasePoolID`, `RemoveSubnet` | the two tests `..._as_in_…` below |
//! | `PredefinedPool`, `ParallelPredefinedRequest1` to `5`, `RequestPoolParallel` | `default_pools_that_are_requested_at_once_differ` |
//! | `PoolAllocationReuse` | `pools`: a default pool is given again when no other is left |
//! | `RequestReleaseAddressFromSubPool`, `Serialize…`, `GetAddressSubPoolEqualPool` | `a_sub_pool_is_given_to_its_last_address` |
//! | `GetAddress`, `Request`, `Release` | `each_address_of_a_pool_is_given_and_a_released_one_again` |
//! | `AllocateRandomDeallocate`, `RetrieveFromStore` | `a_part_that_is_released_is_given_again_by_the_next_daemon` |
//! | `RequestReleaseAddressDuplicate`, `FullAllocateRelease`, `OddAllocateRelease`, the three `…SerialReleaseParallel`, `Debug` | `no_address_is_given_twice_while_others_are_released` |
//! | `GetSameAddress`, `GetAddressVersion` | `calls`: an address is any of the sub-pool or the requested one |
//! | `RequestSyntaxCheck` | `pools`, `calls`: each refusal names what is wrong |
//! | `KeyString` | `calls`: the calls of a real dockerd, with the IDs of its pools |
//!
//! Not here: `Int2IP2IntConversion`, `PoolDataMarshal` and `SubnetsMarshal` test libnetwork's own data.
//! `AddSubnets` and `OverlappingRequests` refuse pools that overlap: ours share their addresses, none of
//! which is given twice. `DoublePoolRelease` fails at the second release: ours succeeds, since Docker
//! repeats a call whose answer was lost.

use std::collections::BTreeSet;
use std::thread;

use harness::DockerDaemon;
use serde_json::json;

use crate::calls::{assert_empty, pool_of, request_pool, start, started, started_with};

/// Requests this number of addresses in this number of threads.
fn given(daemon: &DockerDaemon, pool: &str, count: usize, threads: usize) -> Vec<String> {
    thread::scope(|scope| {
        let request = || {
            (0..count / threads)
                .map(|_| daemon.address(pool, ""))
                .collect()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(request)).collect();
        let given = running.into_iter().map(|thread| thread.join().unwrap());
        given.collect::<Vec<Vec<String>>>().concat()
    })
}

#[test]
fn identical_requests_have_identical_ids_as_in_add_release_pool_id() {
    let (sandbox, daemon) = started();
    let whole = || pool_of(&daemon, "10.0.0.0/8", "");
    let part = || pool_of(&daemon, "10.0.0.0/8", "10.0.0.0/16");
    let (first, of_part) = (whole(), part());
    assert!(first != of_part && of_part == part());
    daemon.release_pool(&of_part);
    daemon.release_pool(&first);
    // The pool of the part is still there, and the whole one is the same again.
    let ip = daemon.address(&of_part, "");
    daemon.release(&of_part, &ip);
    assert_eq!(whole(), first);
    daemon.release_pool(&of_part);
    daemon.release_pool(&first);
    assert_eq!(whole(), first);
    assert_eq!(daemon.pool("10.0.0.9/8", &json!({})), first);
    let six = || pool_of(&daemon, "fd00:4::/64", "");
    assert_eq!(six(), six());
    // Other options are another pool of the same subnet.
    assert_ne!(daemon.pool("10.0.0.0/8", &json!({"team": "shop"})), first);
    assert_empty(&sandbox);
}

#[test]
fn each_pool_is_released_as_in_remove_subnet() {
    let (sandbox, daemon) = started();
    let subnets = [
        "192.168.0.0/16",
        "172.17.0.0/16",
        "10.0.0.0/8",
        "2001:db8:1:2:3:4:ffff::/112",
        "172.17.0.0/16",
        "10.0.0.0/8",
        "2001:db8:1:2:3:4:5::/112",
        "2001:db8:1:2:3:4:ffff::/112",
    ];
    let pools = subnets.map(|subnet| daemon.pool(subnet, &json!({})));
    let different: BTreeSet<&String> = pools.iter().collect();
    assert_eq!(different.len(), 5);
    for (i, pool) in pools.iter().enumerate() {
        daemon.release_pool(pool);
        for kept in &pools[i + 1..] {
            let ip = daemon.address(kept, "");
            daemon.release(kept, &ip);
        }
    }
    assert_empty(&sandbox);
}

#[test]
fn default_pools_that_are_requested_at_once_differ() {
    let (_sandbox, daemon) = started();
    let given: BTreeSet<String> = thread::scope(|scope| {
        let request = || request_pool(&daemon, "", "", false)["Pool"].to_string();
        let running: Vec<_> = (0..40).map(|_| scope.spawn(request)).collect();
        let given = running.into_iter().map(|thread| thread.join().unwrap());
        given.collect()
    });
    assert_eq!(given.len(), 40);
}

#[test]
fn a_sub_pool_is_given_to_its_last_address() {
    let (_sandbox, daemon) = started();
    let pool = pool_of(&daemon, "172.28.0.0/16", "172.28.30.0/25");
    let all = given(&daemon, &pool, 128, 1);
    assert_eq!([&all[0], &all[127]], ["172.28.30.0", "172.28.30.127"]);
    daemon.no_address(&pool, "");
    daemon.release(&pool, "172.28.30.97");
    assert_eq!(daemon.address(&pool, ""), "172.28.30.97");
    let pool = pool_of(&daemon, "10.2.0.0/16", "10.2.2.0/24");
    let mut order = vec![daemon.address(&pool, "10.2.2.1")];
    order.extend(given(&daemon, &pool, 2, 1));
    assert_eq!(order, ["10.2.2.1", "10.2.2.0", "10.2.2.2"]);
    for ip in ["10.2.2.2", "10.2.2.1"] {
        daemon.release(&pool, ip);
        assert_eq!(daemon.address(&pool, ""), ip);
    }
    let whole = pool_of(&daemon, "172.18.0.0/16", "172.18.0.0/16");
    assert_eq!(daemon.address(&whole, ""), "172.18.0.1");
}

#[test]
fn each_address_of_a_pool_is_given_and_a_released_one_again() {
    let (_sandbox, daemon) = started();
    for (subnet, count, last) in [
        ("192.168.59.0/24", 254, "192.168.59.254"),
        ("10.16.0.0/12", 256, "10.16.1.0"),
    ] {
        let pool = daemon.pool(subnet, &json!({}));
        assert_eq!(given(&daemon, &pool, count, 1).last().unwrap(), last);
    }
    let pool = daemon.pool("192.168.0.0/23", &json!({}));
    assert_eq!(given(&daemon, &pool, 510, 2).len(), 510);
    for ip in [
        "192.168.0.1",
        "192.168.0.31",
        "192.168.0.254",
        "192.168.1.1",
        "192.168.1.254",
    ] {
        daemon.release(&pool, ip);
        assert_eq!(daemon.address(&pool, ""), ip);
    }
}

#[test]
fn a_part_that_is_released_is_given_again_by_the_next_daemon() {
    for part in ["", "172.25.252.0/22"] {
        let (sandbox, daemon) = started();
        let pool = pool_of(&daemon, "172.25.0.0/16", part);
        let all = given(&daemon, &pool, 200, 1);
        let (released, kept) = all.split_at(100);
        for ip in released {
            daemon.release(&pool, ip);
        }
        daemon.kill();
        let daemon = start(&sandbox);
        let again: BTreeSet<String> = given(&daemon, &pool, 100, 1).into_iter().collect();
        assert!(again.len() == 100 && kept.iter().all(|ip| !again.contains(ip)));
    }
}

#[test]
fn no_address_is_given_twice_while_others_are_released() {
    let (sandbox, daemon, pool) = started_with("198.168.0.0/24");
    let is_odd = |ip: &&String| ip.ends_with(['1', '3', '5', '7', '9']);
    for threads in [2, 8] {
        let all = given(&daemon, &pool, 248, threads);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 248);
        let (odd, even): (Vec<&String>, Vec<&String>) = all.iter().partition(is_odd);
        let release = |ips: &[&String]| ips.iter().for_each(|ip| daemon.release(&pool, ip));
        let again = thread::scope(|scope| {
            for part in odd.chunks(odd.len().div_ceil(threads)) {
                scope.spawn(move || release(part));
            }
            given(&daemon, &pool, 6, 2)
        });
        let mut left: BTreeSet<&String> = even.into_iter().collect();
        assert!(again.iter().all(|ip| left.insert(ip)), "{again:?}");
        release(&left.into_iter().collect::<Vec<_>>());
    }
    assert_empty(&sandbox);
}
