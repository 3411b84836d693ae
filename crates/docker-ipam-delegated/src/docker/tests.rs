//! Tests of Docker's answer, and of the judgement by it.

use std::net::IpAddr;

use ipam::IpNet;

use crate::docker::answers::Network;
use crate::docker::engine::{Engine, User};
use crate::docker::judgement::{Held, Verdict, judge};

/// As Docker 20.10 answers `GET /networks/ID`.
const SHOP: &str = r#"{"Name":"shop","Id":"9a","Scope":"local","Driver":"bridge",
    "IPAM":{"Driver":"ipam-delegated","Options":{"team":"shop"},"Config":[
        {"Subnet":"10.88.0.0/16","Gateway":"10.88.0.254","AuxiliaryAddresses":{"router":"10.88.5.1"}},
        {"Subnet":"fd00:88::/64"}]},
    "Containers":{"f1":{"Name":"web-1","EndpointID":"e1","MacAddress":"02:42:0a:58:00:02",
        "IPv4Address":"10.88.0.2/16","IPv6Address":"fd00:88::2/64"}},
    "Options":{},"Labels":{}}"#;

/// Docker's `null` and `host` networks.
const NONE: &str =
    r#"{"Name":"none","IPAM":{"Driver":"default","Options":null,"Config":[]},"Containers":{}}"#;

/// A Docker with the network `shop`, whose container `web-1` runs.
fn engine() -> Engine {
    read(&[NONE, SHOP], &[])
}

fn read(networks: &[&str], running: &[&str]) -> Engine {
    let networks = networks
        .iter()
        .map(|json| serde_json::from_str(json).unwrap());
    let running = running
        .iter()
        .map(|json| serde_json::from_str(json).unwrap());
    Engine::new(networks.collect(), running.collect())
}

/// Docker's names of the user of a thing; `None` if Docker doesn't have it.
fn user(held: Held<'_>, docker: &Engine) -> Option<String> {
    match judge(held, docker) {
        Verdict::InUse(User { network, container }) => {
            let container = container.iter().map(|name| format!("/{name}"));
            Some(network + &container.collect::<String>())
        }
        _ => None,
    }
}

fn address<'a>(subnet: &str, ip: &str) -> Held<'a> {
    Held::Address(subnet.parse().unwrap(), ip.parse().unwrap())
}

#[test]
fn an_address_is_a_containers_or_the_networks_own() {
    let user = |subnet, ip| user(address(subnet, ip), &engine());
    let v4 = "10.88.0.0/16";
    assert_eq!(user(v4, "10.88.0.2").as_deref(), Some("shop/web-1"));
    assert_eq!(
        user("fd00:88::/64", "fd00:88::2").as_deref(),
        Some("shop/web-1")
    );
    for own in ["10.88.0.254", "10.88.5.1"] {
        assert_eq!(user(v4, own).as_deref(), Some("shop"), "{own}");
    }
    assert_eq!(user(v4, "10.88.0.3"), None);
    // The same address of another pool.
    assert_eq!(user("10.88.0.0/24", "10.88.0.2"), None);
}

#[test]
fn a_subnet_that_was_given_with_host_bits_is_the_same() {
    let engine = read(&[&SHOP.replace("10.88.0.0/16", "10.88.0.1/16")], &[]);
    assert!(user(Held::Pool("10.88.0.0/16".parse().unwrap()), &engine).is_some());
    assert!(user(address("10.88.0.0/16", "10.88.0.2"), &engine).is_some());
}

#[test]
fn an_endpoint_is_known_by_its_id() {
    let name = |id: &str| user(Held::Endpoint(id), &engine());
    assert_eq!(name("e1").as_deref(), Some("shop/web-1"));
    assert_eq!(name("e2"), None);
}

#[test]
fn a_running_container_has_its_address_though_docker_has_lost_the_network() {
    let running = r#"{"Names":["/web"],"NetworkSettings":{"Networks":{"lost":{
        "NetworkID":"77","EndpointID":"e7","IPAddress":"10.88.0.7","GlobalIPv6Address":""}}}}"#;
    let engine = read(&[NONE, SHOP], &[running]);
    let of_address = address("10.88.0.0/16", "10.88.0.7");
    assert_eq!(user(of_address, &engine).as_deref(), Some("lost/web"));
    let of_endpoint = Held::Endpoint("e7");
    assert_eq!(user(of_endpoint, &engine).as_deref(), Some("lost/web"));
    // A listed network's answer names its containers.
    let engine = read(&[NONE, SHOP], &[&running.replace("77", "9a")]);
    assert!(user(of_address, &engine).is_none());
}

#[test]
fn the_gateway_of_a_lost_network_is_unknown() {
    let running = r#"{"Names":["/web"],"NetworkSettings":{"Networks":{"lost":{
        "NetworkID":"77","EndpointID":"e7","IPAddress":"10.89.0.7"}}}}"#;
    let engine = read(&[NONE, SHOP], &[running]);
    let subnet = "10.89.0.0/16".parse().unwrap();
    let gateway = Held::Gateway(subnet, "10.89.0.254".parse().unwrap());
    assert_eq!(word(Held::Pool(subnet), &engine), "in use");
    assert_eq!(word(gateway, &engine), "unknown");
}

#[test]
fn a_subnet_or_address_that_cannot_be_read_is_no_answer() {
    for (readable, other) in [
        ("10.88.0.0/16", "10.88.0.0/33"),
        ("10.88.0.254", "invalid IP"),
        ("10.88.5.1", "10.88.5"),
        ("10.88.0.2/16", "/16"),
        ("fd00:88::2/64", "fd00:88::2%eth0/64"),
    ] {
        let network = SHOP.replace(readable, other);
        let error = serde_json::from_str::<Network>(&network).unwrap_err();
        assert!(error.to_string().contains(other), "{error}");
        let empty = SHOP.replace(readable, "");
        assert!(serde_json::from_str::<Network>(&empty).is_ok());
    }
}

fn word(held: Held<'_>, docker: &Engine) -> &'static str {
    match judge(held, docker) {
        Verdict::InUse(_) => "in use",
        Verdict::Lost => "lost",
        Verdict::Unknown(_) => "unknown",
    }
}

#[test]
fn what_dockers_answer_names_is_in_use_and_what_it_cant_name_is_unknown() {
    let subnet = |text: &str| text.parse::<IpNet>().unwrap();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let (v4, v6) = (subnet("10.88.0.0/16"), subnet("fd00:88::/64"));
    for (held, expected) in [
        (Held::Pool(v4), "in use"),
        (Held::Pool(subnet("10.89.0.0/16")), "lost"),
        (Held::Address(v4, ip("10.88.0.2")), "in use"),
        (Held::Address(v4, ip("10.88.0.3")), "lost"),
        (Held::Gateway(v4, ip("10.88.0.254")), "in use"),
        (Held::Gateway(v4, ip("10.88.0.1")), "lost"),
        // Docker doesn't show the gateway of this one.
        (Held::Gateway(v6, ip("fd00:88::1")), "unknown"),
        (
            Held::Gateway(subnet("10.89.0.0/16"), ip("10.89.0.1")),
            "lost",
        ),
        (Held::Attachment(&[ip("10.88.0.2")]), "in use"),
        (Held::Attachment(&[ip("10.88.0.3")]), "lost"),
        (Held::Attachment(&[]), "unknown"),
        (Held::Network("9a"), "in use"),
        (Held::Network("9b"), "lost"),
        (Held::Endpoint("e1"), "in use"),
        (Held::Endpoint("e2"), "lost"),
    ] {
        assert_eq!(word(held, &engine()), expected, "{held:?}");
    }
}
