use std::thread;

use super::*;

fn pool(subnet: &str, range: Option<&str>) -> Pool {
    let range = range.map(|text| text.parse().unwrap());
    Pool::new(subnet.parse().unwrap(), range, [].into(), None).unwrap()
}

fn allocation(pool: &Pool, id: &str) -> Arc<Allocation> {
    Arc::new(Allocation {
        id: id.parse().unwrap(),
        pool: pool.clone(),
        network: "docker-local".parse().unwrap(),
        purpose: Purpose::Container,
        name: None,
        is_requested: false,
        added: SystemTime::now(),
        since: Some(Instant::now()),
    })
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_lowest_free_address_is_given_also_after_a_release() {
    let (all, pool) = (Allocations::default(), pool("10.1.0.0/24", None));
    let next = |id| all.begin_lowest(&allocation(&pool, id), None).unwrap();
    assert!(all.begin(&allocation(&pool, "a"), ip("10.1.0.2")).is_ok());
    assert_eq!(next("b"), ip("10.1.0.1"));
    assert_eq!(next("c"), ip("10.1.0.3"));
    assert_eq!(next("d"), ip("10.1.0.4"));
    let b = "b".parse().unwrap();
    assert!(all.begin_release(&b));
    all.end_release(&b, true);
    assert_eq!(next("e"), ip("10.1.0.1"));
    assert_eq!(next("f"), ip("10.1.0.5"));
}

#[test]
fn pools_of_one_subnet_give_no_address_twice() {
    let all = Allocations::default();
    let (whole, part) = (
        pool("10.1.0.0/24", None),
        pool("10.1.0.0/24", Some("10.1.0.0/30")),
    );
    assert_eq!(
        all.begin_lowest(&allocation(&part, "a"), None),
        Some(ip("10.1.0.1"))
    );
    assert_eq!(
        all.begin_lowest(&allocation(&whole, "b"), None),
        Some(ip("10.1.0.2"))
    );
    assert_eq!(
        all.begin_lowest(&allocation(&part, "c"), None),
        Some(ip("10.1.0.3"))
    );
    assert_eq!(all.begin_lowest(&allocation(&part, "d"), None), None);
    let (other, phase) = all
        .begin(&allocation(&whole, "e"), ip("10.1.0.3"))
        .unwrap_err();
    assert_eq!((other.id.as_str(), phase), ("c", Phase::Adding));
}

#[test]
fn a_release_waits_for_one_that_runs() {
    for is_released in [true, false] {
        let (all, pool) = (Allocations::default(), pool("10.1.0.0/24", None));
        let one = allocation(&pool, "a");
        all.begin(&one, ip("10.1.0.1")).unwrap();
        assert!(all.begin_release(&one.id));
        thread::scope(|scope| {
            let other = scope.spawn(|| all.begin_release(&one.id));
            all.end_release(&one.id, is_released);
            // If the first one has failed, the other one tries.
            assert_eq!(other.join().unwrap(), !is_released);
        });
    }
}

/// Allocates an address.
fn give(all: &Allocations, pool: &Pool, id: &str, purpose: Purpose, text: &str) -> Arc<Allocation> {
    let allocation = Arc::new(Allocation {
        purpose,
        ..Allocation::clone(&allocation(pool, id))
    });
    all.begin(&allocation, ip(text)).unwrap();
    all.given(&allocation.id, ip(text));
    allocation
}

fn candidates(all: &Allocations) -> Vec<IpAddr> {
    let lost = all.candidates(Duration::from_secs(600)).into_iter();
    lost.map(|(_, ip)| ip).collect()
}

#[test]
fn what_a_network_gives_back_of_its_own_may_be_lost_at_once_until_it_is_given_again() {
    let all = Allocations::default();
    let whole = pool("10.1.0.0/24", None);
    let part = pool("10.1.0.0/24", Some("10.1.0.128/25"));
    let gateway = give(&all, &whole, "a", Purpose::Gateway, "10.1.0.1");
    give(&all, &whole, "b", Purpose::Container, "10.1.0.2");
    assert_eq!(candidates(&all), [""; 0].map(ip));
    all.leave(|one| one.id == gateway.id);
    assert_eq!(candidates(&all), [ip("10.1.0.1")]);
    let seen = all.candidates(Duration::ZERO);
    // It is its subnet's, whatever the range.
    assert!(all.share_gateway(&part, ip("10.1.0.1")));
    assert!(!all.share_gateway(&pool("10.1.0.0/23", None), ip("10.1.0.1")));
    assert!(!all.share_gateway(&whole, ip("10.1.0.2")));
    assert_eq!(candidates(&all), [""; 0].map(ip));
    // An earlier look doesn't release it.
    assert!(
        seen.iter()
            .all(|(one, _)| one.id != gateway.id || !all.abandon(one))
    );
    all.leave(|one| one.pool.shares_subnet_with(&part));
    assert_eq!(candidates(&all), [ip("10.1.0.1")]);
}

#[test]
fn a_subnet_is_left_when_only_a_networks_own_is_held_in_it() {
    let all = Allocations::default();
    let (left, used) = (pool("10.1.0.0/24", None), pool("10.2.0.0/24", None));
    for (i, pool) in [&left, &used].into_iter().enumerate() {
        give(
            &all,
            pool,
            &format!("s{i}"),
            Purpose::Subnet,
            &format!("10.{}.0.0", i + 1),
        );
        give(
            &all,
            pool,
            &format!("g{i}"),
            Purpose::Gateway,
            &format!("10.{}.0.1", i + 1),
        );
    }
    give(&all, &used, "c", Purpose::Container, "10.2.0.2");
    assert!(all.left_subnets().is_empty());
    all.leave(|one| one.pool.shares_subnet_with(&left));
    all.leave(|one| one.pool.shares_subnet_with(&used));
    let subnets: Vec<IpNet> = all.left_subnets().into_keys().collect();
    assert_eq!(subnets, [left.subnet]);
    assert!(all.renew(&"s0".parse().unwrap()) && !all.renew(&"s0".parse().unwrap()));
    assert!(all.left_subnets().is_empty());
}
