use clap::Parser;
use cni::Environment;

use super::*;
use crate::command_line::CommandLine;
use crate::ipam::pool::PoolId;

fn pool(subnet: &str, range: Option<&str>) -> Arc<Pool> {
    let id = PoolId {
        space: "s".to_owned(),
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
    assert!(all.begin_release(&b) && !all.begin_release(&b));
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
fn a_gateway_is_given_back_as_often_as_it_was_given() {
    let (all, pool) = (AllHeld::default(), pool("10.1.0.0/24", None));
    let gateway = held(&pool, "a");
    all.begin(&gateway, ip("10.1.0.1")).unwrap();
    all.given(&gateway.id, ip("10.1.0.1"));
    all.given_again(&gateway.id);
    assert!(all.given_back_once(&gateway.id));
    assert!(!all.given_back_once(&gateway.id));
}
