//! Published ports, as Docker passes them on in an endpoint's options.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use docker_records::records::PortMapping;
use serde::Deserialize;
use serde_json::Value;

use crate::network::endpoint::Endpoint;

/// The option of the published ports (`netlabel.PortMap`).
const OPTION: &str = "com.docker.network.portmap";

/// A published port (`types.PortBinding` of libnetwork).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PortBinding {
    /// Number of the protocol.
    proto: u8,
    port: u16,
    #[serde(rename = "HostIP", default)]
    host_ip: String,
    #[serde(default)]
    host_port: u16,
    #[serde(default)]
    host_port_end: u16,
}

/// The published ports in the options of an endpoint.
///
/// # Errors
///
/// A port of the host is missing, or is one of several.
pub(crate) fn published(options: &BTreeMap<String, Value>) -> Result<Vec<PortMapping>> {
    let bindings = options.get(OPTION).cloned().unwrap_or_default();
    let bindings: Option<Vec<PortBinding>> = serde_json::from_value(bindings).context(OPTION)?;
    bindings.into_iter().flatten().map(mapping).collect()
}

/// Refuses a port of the host that another endpoint publishes.
///
/// # Errors
///
/// The first such port, with that endpoint.
pub(crate) fn refuse_published(ports: &[PortMapping], others: &[Endpoint]) -> Result<()> {
    for port in ports {
        let publishes = |other: &&Endpoint| other.line.ports.iter().any(|its| is_same(port, its));
        if let Some(other) = others.iter().find(publishes) {
            let (port, protocol) = (port.host_port, &port.protocol);
            let (id, network) = (&other.line.id, other.config.name());
            bail!(
                "port {port}/{protocol} of the host is published already, by endpoint {id} of network {network}"
            );
        }
    }
    Ok(())
}

/// True if one port of the host is published by both, on an address that both have.
fn is_same(one: &PortMapping, other: &PortMapping) -> bool {
    let address = |mapping: &PortMapping| mapping.host_ip.parse::<IpAddr>().ok();
    // Without an address, a port is published on all; with the unspecified one, on all of its family.
    let is_shared = address(one).zip(address(other)).is_none_or(|(one, other)| {
        let is_all = one.is_unspecified() || other.is_unspecified();
        one == other || is_all && one.is_ipv4() == other.is_ipv4()
    });
    (one.host_port, &one.protocol) == (other.host_port, &other.protocol) && is_shared
}

fn mapping(binding: PortBinding) -> Result<PortMapping> {
    let (port, host_port) = (binding.port, binding.host_port);
    let host_port_end = binding.host_port_end;
    let protocol = match binding.proto {
        6 => "tcp",
        17 => "udp",
        132 => "sctp",
        other => bail!("port {port} of the protocol {other} can't be published"),
    };
    ensure!(
        host_port > 0,
        "port {port}/{protocol} is published without a port of the host (-P, -p {port}): \
         give one, -p HOST:{port}"
    );
    ensure!(
        host_port_end == 0 || host_port_end == host_port,
        "port {port}/{protocol} is published on one of the ports {host_port}-{host_port_end}: \
         give one"
    );
    Ok(PortMapping {
        host_port,
        container_port: port,
        protocol: protocol.to_owned(),
        host_ip: binding.host_ip,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(bindings: Value) -> Result<Vec<PortMapping>, String> {
        let options = [(OPTION.to_owned(), bindings)].into();
        published(&options).map_err(|why| why.to_string())
    }

    #[test]
    fn a_published_port_is_a_port_mapping() {
        let read = read(json!([
            {"Proto": 6, "IP": "", "Port": 80, "HostIP": "", "HostPort": 8080, "HostPortEnd": 8080},
            {"Proto": 17, "IP": null, "Port": 53, "HostIP": "127.0.0.1", "HostPort": 53, "HostPortEnd": 0}]));
        let written = serde_json::to_value(read.unwrap()).unwrap();
        let expected = json!([
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
            {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"}]);
        assert_eq!(written, expected);
    }

    #[test]
    fn a_port_is_the_same_on_an_address_that_both_have() {
        let port = |host_port, protocol: &str, host_ip: &str| PortMapping {
            host_port,
            container_port: 80,
            protocol: protocol.to_owned(),
            host_ip: host_ip.to_owned(),
        };
        let one = port(80, "tcp", "");
        for (other, same) in [
            (port(80, "tcp", ""), true),
            (port(80, "tcp", "127.0.0.1"), true),
            (port(80, "udp", ""), false),
            (port(81, "tcp", ""), false),
        ] {
            assert_eq!((is_same(&one, &other), is_same(&other, &one)), (same, same));
        }
        let local = port(80, "tcp", "127.0.0.1");
        for (address, same) in [
            ("127.0.0.1", true),
            ("0.0.0.0", true),
            ("10.0.0.1", false),
            ("::", false),
        ] {
            assert_eq!(
                is_same(&port(80, "tcp", address), &local),
                same,
                "{address}"
            );
        }
    }

    #[test]
    fn a_port_without_one_port_of_the_host_is_refused_by_name() {
        let port = |host: u16, end: u16| json!([{"Proto": 6, "Port": 80, "HostPort": host, "HostPortEnd": end}]);
        assert!(
            read(port(0, 0))
                .unwrap_err()
                .starts_with("port 80/tcp is published without")
        );
        assert!(read(port(8000, 8010)).unwrap_err().contains("8000-8010"));
        assert_eq!(read(Value::Null), Ok(Vec::new()));
    }
}
