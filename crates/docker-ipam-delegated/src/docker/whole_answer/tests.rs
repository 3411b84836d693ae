use std::net::IpAddr;

use serde::Deserialize;

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

fn read(networks: &[&str], running: &[&str]) -> WholeAnswer {
    let networks = networks.iter().map(|json| serde_json::from_str(json));
    let running = running.iter().map(|json| serde_json::from_str(json));
    let networks = networks.collect::<Result<_, _>>().unwrap();
    let running: Result<Vec<Running>, _> = running.collect();
    WholeAnswer::new(networks, &running.unwrap())
}

fn has_lost(purpose: Purpose, subnet: &str, ip: &str, docker: &WholeAnswer) -> bool {
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
fn networks_of_dockers_own_ipam_keep_nothing_and_others_count_under_any_name() {
    for (driver, is_lost) in [("default", true), ("of-a-spec-file", false)] {
        let network = SHOP.replace("ipam-delegated", driver);
        let docker = read(&[NONE, &network], &[RUNNING]);
        for (purpose, subnet, ip) in [
            (Purpose::Container, "10.88.0.0/16", "10.88.0.2"),
            (Purpose::Container, "10.89.0.0/16", "10.89.0.7"),
            (Purpose::Gateway, "10.88.0.0/16", "10.88.0.254"),
            (Purpose::Subnet, "10.88.0.0/16", "10.88.0.0"),
        ] {
            let lost = has_lost(purpose, subnet, ip, &docker);
            assert_eq!(lost, is_lost, "{driver} {ip}");
        }
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

/// The recorded answers of a Docker with a swarm, by their paths.
fn recorded() -> [serde_json::Value; 2] {
    let texts = [
        include_str!("../../../../../testdata/docker/api-20.10.24.json"),
        include_str!("../../../../../testdata/docker/api-29.9.9.json"),
    ];
    texts.map(|text| serde_json::from_str(text).unwrap())
}

/// Docker's whole answer, from those by paths.
fn of_answers(answers: &serde_json::Value) -> serde_json::Result<WholeAnswer> {
    let listed = Option::<Vec<Listed>>::deserialize(&answers["/networks"])?;
    let mut networks = Vec::new();
    for Listed { id } in listed.unwrap_or_default() {
        let network = Network::deserialize(&answers[format!("/networks/{id}")])?;
        networks.push(Network { id, ..network });
    }
    let running = Option::<Vec<Running>>::deserialize(&answers["/containers/json"])?;
    Ok(WholeAnswer::new(networks, &running.unwrap_or_default()))
}

/// The paths (JSON pointers) of all lists and maps in a value. `IPAM`, and what a list or
/// `Containers` has, are structs of Go's, which are never null.
fn nullable(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    let is_struct = path.ends_with("/IPAM")
        || path.rsplit('/').nth(1) == Some("Containers")
        || path
            .rsplit('/')
            .next()
            .is_some_and(|key| key.parse::<usize>().is_ok());
    if (value.is_array() || value.is_object()) && !is_struct && path.matches('/').count() > 1 {
        found.push(path.to_owned());
    }
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    for (key, value) in value.as_object().into_iter().flatten() {
        nullable(value, &format!("{path}/{}", escape(key)), found);
    }
    for (i, value) in value.as_array().into_iter().flatten().enumerate() {
        nullable(value, &format!("{path}/{i}"), found);
    }
}

#[test]
fn each_list_and_map_of_a_recorded_answer_may_be_null() {
    for answers in recorded() {
        let whole = of_answers(&answers).unwrap();
        let address = (Purpose::Container, "10.60.0.0/24", "10.60.0.128");
        assert!(!has_lost(address.0, address.1, address.2, &whole));
        let mut paths = vec!["/~1networks".to_owned(), "/~1containers~1json".to_owned()];
        nullable(&answers, "", &mut paths);
        assert!(paths.iter().any(|path| path.ends_with("/Containers")));
        assert!(paths.len() > 50, "{paths:?}");
        for path in paths {
            let mut with_null = answers.clone();
            *with_null.pointer_mut(&path).unwrap() = serde_json::Value::Null;
            let read = of_answers(&with_null);
            assert!(read.is_ok(), "{path}: {:?}", read.err());
        }
    }
}
