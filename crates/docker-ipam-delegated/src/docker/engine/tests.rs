use std::net::IpAddr;

use super::*;

/// As Docker 20.10 answers `GET /networks/ID`.
const SHOP: &str = r#"{"Name":"shop","Id":"9a","Scope":"local","Driver":"bridge",
    "IPAM":{"Driver":"ipam-delegated","Options":{"team":"shop"},"Config":[
        {"Subnet":"10.88.0.0/16","Gateway":"10.88.0.254","AuxiliaryAddresses":{"router":"10.88.5.1"}},
        {"Subnet":"fd00:88::/64"}]},
    "Containers":{"f1":{"Name":"web-1","EndpointID":"e1","MacAddress":"02:42:0a:58:00:02",
        "IPv4Address":"10.88.0.2/16","IPv6Address":"fd00:88::2/64"}},
    "Options":{},"Labels":{}}"#;

/// Docker's `null` network.
const NONE: &str = r#"{"Id":"0","IPAM":{"Driver":"default","Config":[]},"Containers":{}}"#;

/// A container of `GET /containers/json` in the network `9a`.
const RUNNING: &str = r#"{"Names":["/web"],"NetworkSettings":{"Networks":{"n":{
    "NetworkID":"9a","EndpointID":"e7","IPAddress":"10.89.0.7","GlobalIPv6Address":""}}}}"#;

fn read(networks: &[&str], running: &[&str]) -> Engine {
    let networks = networks.iter().map(|json| serde_json::from_str(json));
    let running = running.iter().map(|json| serde_json::from_str(json));
    let networks = networks.collect::<Result<_, _>>().unwrap();
    let running: Result<Vec<Running>, _> = running.collect();
    Engine::new(networks, &running.unwrap())
}

fn has_lost(purpose: Purpose, subnet: &str, ip: &str, docker: &Engine) -> bool {
    docker.has_lost(
        purpose,
        subnet.parse().unwrap(),
        ip.parse::<IpAddr>().unwrap(),
    )
}

#[test]
fn what_dockers_answer_names_is_kept() {
    let docker = read(&[NONE, SHOP], &[]);
    for (purpose, subnet, ip, is_lost) in [
        (Purpose::Container, "10.88.0.0/16", "10.88.0.2", false),
        (Purpose::Container, "fd00:88::/64", "fd00:88::2", false),
        (Purpose::Container, "10.88.0.0/16", "10.88.5.1", false),
        (Purpose::Container, "10.88.0.0/16", "10.88.0.3", true),
        (Purpose::Subnet, "10.88.0.0/16", "10.88.0.0", false),
        (Purpose::Subnet, "10.89.0.0/16", "10.89.0.0", true),
        (Purpose::Gateway, "10.88.0.0/16", "10.88.0.254", false),
        (Purpose::Gateway, "10.88.0.0/16", "10.88.0.1", true),
        // Docker doesn't show the gateway of this one.
        (Purpose::Gateway, "fd00:88::/64", "fd00:88::1", false),
        (Purpose::Gateway, "10.89.0.0/16", "10.89.0.1", true),
    ] {
        assert_eq!(has_lost(purpose, subnet, ip, &docker), is_lost, "{ip}");
    }
    assert!(!docker.has_lost_endpoint("e1") && docker.has_lost_endpoint("e2"));
    assert!(!docker.has_lost_network("9a") && docker.has_lost_network("9b"));
}

#[test]
fn a_running_container_keeps_its_address_though_its_network_has_lost_the_endpoint() {
    for network in ["9a", "77"] {
        let docker = read(&[NONE, SHOP], &[&RUNNING.replace("9a", network)]);
        let address = (Purpose::Container, "10.89.0.0/16", "10.89.0.7");
        assert!(!has_lost(address.0, address.1, address.2, &docker));
        assert!(!docker.has_lost_endpoint("e7"));
    }
}

#[test]
fn a_network_that_docker_has_lost_keeps_its_subnet_and_gateway_while_a_container_runs() {
    let docker = read(&[NONE, SHOP], &[&RUNNING.replace("9a", "77")]);
    for (purpose, ip) in [
        (Purpose::Subnet, "10.89.0.0"),
        (Purpose::Gateway, "10.89.0.1"),
    ] {
        assert!(!has_lost(purpose, "10.89.0.0/16", ip, &docker));
    }
}

#[test]
fn networks_of_dockers_own_ipam_keep_nothing() {
    let other = SHOP.replace(r#""Driver":"ipam-delegated""#, r#""Driver":"default""#);
    let docker = read(&[NONE, &other], &[RUNNING]);
    for (purpose, subnet, ip) in [
        (Purpose::Container, "10.88.0.0/16", "10.88.0.2"),
        (Purpose::Container, "10.89.0.0/16", "10.89.0.7"),
        (Purpose::Gateway, "10.88.0.0/16", "10.88.0.254"),
        (Purpose::Subnet, "10.88.0.0/16", "10.88.0.0"),
    ] {
        assert!(has_lost(purpose, subnet, ip, &docker), "{ip}");
    }
}

#[test]
fn a_network_counts_under_whatever_name_docker_knows_the_daemon() {
    let renamed = SHOP.replace(
        r#""Driver":"ipam-delegated""#,
        r#""Driver":"of-a-spec-file""#,
    );
    let docker = read(&[NONE, &renamed], &[RUNNING]);
    for (purpose, subnet, ip) in [
        (Purpose::Container, "10.88.0.0/16", "10.88.0.2"),
        (Purpose::Container, "10.89.0.0/16", "10.89.0.7"),
        (Purpose::Gateway, "10.88.0.0/16", "10.88.0.254"),
        (Purpose::Subnet, "10.88.0.0/16", "10.88.0.0"),
    ] {
        assert!(!has_lost(purpose, subnet, ip, &docker), "{ip}");
    }
}

#[test]
fn addresses_are_compared_as_numbers() {
    let written = SHOP
        .replace("10.88.0.0/16", "10.88.0.1/016")
        .replace(r#""10.88.0.254""#, r#""::ffff:10.88.0.254""#)
        .replace(r#""10.88.5.1""#, r#""010.088.5.1""#);
    let docker = read(&[&written], &[]);
    for (purpose, ip) in [
        (Purpose::Gateway, "10.88.0.254"),
        (Purpose::Container, "10.88.5.1"),
        (Purpose::Subnet, "10.88.0.0"),
    ] {
        assert!(!has_lost(purpose, "10.88.0.0/16", ip, &docker), "{ip}");
    }
}

#[test]
fn a_part_that_cannot_be_read_is_no_answer() {
    for (readable, other) in [
        ("10.88.0.0/16", "10.88.0.0/33"),
        ("10.88.0.254", "invalid IP"),
        ("10.88.5.1", "10.88.5"),
        ("10.88.0.2/16", "/16"),
        (r#""Driver":"ipam-delegated","#, ""),
        (r#""Containers""#, r#""Other""#),
    ] {
        let network = SHOP.replace(readable, other);
        assert!(
            serde_json::from_str::<Network>(&network).is_err(),
            "{other}"
        );
    }
}
