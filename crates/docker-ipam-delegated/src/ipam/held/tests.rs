use std::thread;

use clap::Parser;
use cni::Environment;

use super::*;
use crate::command_line::CommandLine;
use crate::ipam::pool::PoolId;

fn pool(subnet: &str, range: Option<&str>) -> Arc<Pool> {
    let id = PoolId {
        id: String::new(),
        subnet: subnet.parse().unwrap(),
        range: range.map(|text| text.parse().unwrap()),
        options: [].into(),
        conflist: None,
    };
    let arguments = CommandLine::parse_from(["docker-ipam-delegated"]);
    Arc::new(Pool::of(id, &arguments, &Environment::default()).unwrap())
}

fn held(pool: &Arc<Pool>, id: &str) -> Arc<Held> {
    Arc::new(Held {
        id: id.parse().unwrap(),
        pool: Arc::clone(pool),
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
    let (all, pool) = (AllHeld::default(), pool("10.1.0.0/24", None));
    let next = |id| all.begin_lowest(&held(&pool, id), None).unwrap();
    assert!(all.begin(&held(&pool, "a"), ip("10.1.0.2")).is_ok());
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
    let all = AllHeld::default();
    let (whole, part) = (
        pool("10.1.0.0/24", None),
        pool("10.1.0.0/24", Some("10.1.0.0/30")),
    );
    assert_eq!(
        all.begin_lowest(&held(&part, "a"), None),
        Some(ip("10.1.0.1"))
    );
    assert_eq!(
        all.begin_lowest(&held(&whole, "b"), None),
        Some(ip("10.1.0.2"))
    );
    assert_eq!(
        all.begin_lowest(&held(&part, "c"), None),
        Some(ip("10.1.0.3"))
    );
    assert_eq!(all.begin_lowest(&held(&part, "d"), None), None);
    let (other, phase) = all.begin(&held(&whole, "e"), ip("10.1.0.3")).unwrap_err();
    assert_eq!((other.id.as_str(), phase), ("c", Phase::Adding));
}

#[test]
fn a_release_waits_for_one_that_runs() {
    for is_released in [true, false] {
        let (all, pool) = (AllHeld::default(), pool("10.1.0.0/24", None));
        let one = held(&pool, "a");
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

#[test]
fn a_pool_is_left_with_what_is_the_networks_own() {
    let (all, pool) = (AllHeld::default(), pool("10.1.0.0/24", None));
    let gateway = Arc::new(Held {
        purpose: Purpose::Gateway,
        ..Arc::into_inner(held(&pool, "a")).unwrap()
    });
    for (held, ip) in [
        (&gateway, ip("10.1.0.1")),
        (&held(&pool, "b"), ip("10.1.0.2")),
    ] {
        all.begin(held, ip).unwrap();
        all.given(&held.id, ip);
    }
    let left = all.leave_pool(&pool.text);
    assert!(left.len() == 1 && left[0].id == gateway.id);
    assert_eq!(all.in_phase(Phase::Left)[0].1, Some(ip("10.1.0.2")));
}
