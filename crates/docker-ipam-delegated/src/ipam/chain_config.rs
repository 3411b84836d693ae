//! Network configurations of the chains that serve Docker: the daemon's own, for networks that name
//! none, and one that is made of a network configuration's first `ipam` section.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cni::{Error, NetworkConfig, Object};
use conflist::Conflist;
use docker_records::pool::{DOCKER_DIRECTORY, range_of};
use docker_records::pool_filter;
use ipam::{IpNet, NO_GATEWAY};
use serde::Serialize;
use serde_json::json;

use crate::command_line::CommandLine;

/// The name of the chain's network of networks without a network configuration.
const NETWORK: &str = "docker-local";

/// The configurations' key `type`: what calls the chain.
const MAIN_PLUGIN: &str = env!("CARGO_PKG_NAME");

/// The delegates that replace `host-local` in a network configuration: they read its
/// configuration and write its files.
const OURS: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// A delegate that needs the container's network namespace and interface. Docker asks for an
/// address before there is either.
const DHCP: &str = "dhcp";

/// The delegate whose leases a daemon renews by the chain's records. Docker moves the interface of an
/// endpoint to a namespace that no record names.
pub(crate) const LEASES: &str = "ipam-da-dhcp";

/// The configuration for an address of a pool without a network configuration; without its address,
/// for all of them. Its only pool is the address: any address of the subnet can be requested, also
/// its own address and the gateway.
pub(crate) fn own(arguments: &CommandLine, address: Option<(IpNet, IpAddr)>) -> Object {
    // A pool's gateway can't be requested.
    let pool = address.map(|(subnet, ip)| {
        json!({"space": DOCKER_DIRECTORY, "subnet": subnet, "rangeStart": ip, "rangeEnd": ip,
            "gateway": NO_GATEWAY, "requested-ip": ip})
    });
    let ipam = json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-static", "ipam-da-host-local"],
        "pools": pool.as_slice(),
        "dataDir": arguments.data_dir,
        "stateDir": arguments.records(),
    });
    with_ipam("1.1.0", NETWORK, &ipam)
}

/// A configuration with this `ipam` section.
fn with_ipam(version: &str, network: &str, ipam: &impl Serialize) -> Object {
    let mut config = Object::new();
    config.set("cniVersion", version);
    config.set("name", network);
    config.set("type", MAIN_PLUGIN);
    config.set("ipam", ipam);
    config
}

/// The configuration of a network configuration's chain, from its first `ipam` section. Its key
/// `name` is `docker-<name>`, or `<name>` for a chain without a selector, whose allocator knows only
/// the network's name. Its records are in the daemon's folder.
///
/// # Errors
///
/// There is no `ipam` section, or it is wrong.
pub(crate) fn of_conflist(list: &Conflist, records: &Path) -> Result<Object> {
    let name = &list.name;
    let mut sections = list
        .plugins
        .iter()
        .filter_map(|plugin| plugin.ipam.as_ref());
    let section = sections.next();
    let missing = || format!("conflist {name}: no plugin has an ipam section");
    let mut ipam = section.with_context(missing)?.clone();
    let kind: Option<String> = ipam.read("ipam", "type")?;
    let kind = kind.with_context(|| format!("conflist {name}: ipam.type is missing"))?;
    let mut delegates: Vec<String> = match kind.as_str() {
        "ipam-delegated" => ipam.read("ipam", "delegates")?.unwrap_or_default(),
        "host-local" => OURS.map(str::to_owned).to_vec(),
        _ => vec![kind],
    };
    ensure!(
        !delegates.iter().any(|name| name == LEASES),
        "conflist {name}: ipam has the delegate {LEASES}: in Docker's networks its leases would not be \
         renewed"
    );
    ensure!(
        delegates.iter().all(|name| name != DHCP),
        "conflist {name}: ipam has the delegate {DHCP}, which needs the container's network \
         namespace, and Docker asks for an address before there is one; with \
         --driver ipam-delegated --ipam-driver null, the namespace is there"
    );
    let holds_nothing = |name: &&String| cni::holds_nothing(name);
    let selectors = delegates.iter().take_while(holds_nothing).count();
    let network = if selectors == 0 {
        name.to_string()
    } else {
        delegates.insert(selectors, pool_filter::NAME.to_owned());
        format!("docker-{name}")
    };
    ipam.set("type", "ipam-delegated");
    ipam.set("delegates", &delegates);
    ipam.set("stateDir", records);
    Ok(with_ipam(list.version.as_str(), &network, &ipam))
}

/// The configuration with which the selectors are asked for their pools. `subnet` is the subnet
/// that Docker requests.
///
/// # Errors
///
/// Code 7: a value in it is wrong.
pub(crate) fn of_question(config: &Object, subnet: Option<IpNet>) -> Result<NetworkConfig, Error> {
    let mut runtime = Object::new();
    if let Some(subnet) = subnet {
        runtime.set("ipRanges", &[[range_of(subnet, None)]]);
    }
    let mut config = config.clone();
    config.set("runtimeConfig", &runtime);
    parse(&config)
}

/// Parses a configuration that the daemon has built.
///
/// # Errors
///
/// Code 7: a value in it is wrong.
pub(crate) fn parse(config: &Object) -> Result<NetworkConfig, Error> {
    NetworkConfig::parse(serde_json::to_vec(config).expect("an object is JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(ipam: &str) -> Result<String, String> {
        let list = format!(
            r#"{{"cniVersion":"1.0.0","name":"web","plugins":[{{"type":"bridge","ipam":{ipam}}}]}}"#
        );
        let list = Conflist::parse(Path::new("/web.conflist"), list.as_bytes())?;
        let config = of_conflist(&list, Path::new("/r"));
        let config = config.map_err(|why| why.to_string())?;
        Ok(serde_json::to_string(&config).unwrap())
    }

    #[test]
    fn without_a_configuration_the_requested_address_is_the_pool() {
        let arguments = clap::Parser::parse_from(["daemon"]);
        let address = ("10.1.0.0/24".parse().unwrap(), "10.1.0.0".parse().unwrap());
        let config = serde_json::to_value(own(&arguments, Some(address))).unwrap();
        assert_eq!(
            config["ipam"]["pools"],
            json!([{"gateway": "none", "rangeEnd": "10.1.0.0", "rangeStart": "10.1.0.0",
                "requested-ip": "10.1.0.0", "space": "docker", "subnet": "10.1.0.0/24"}])
        );
    }

    #[test]
    fn the_filter_stands_behind_the_selectors() {
        let ipam = r#"{"type":"ipam-delegated","delegates":["ipam-ds-rules","ipam-da-host-local"],"pools":{"a":{"subnet":"10.1.0.0/24"}}}"#;
        assert_eq!(
            config(ipam).unwrap(),
            r#"{"cniVersion":"1.0.0","name":"docker-web","type":"docker-ipam-delegated","ipam":{"type":"ipam-delegated","delegates":["ipam-ds-rules","ipam-ds-docker","ipam-da-host-local"],"pools":{"a":{"subnet":"10.1.0.0/24"}},"stateDir":"/r"}}"#
        );
    }

    #[test]
    fn host_local_is_read_as_the_chain_that_keeps_its_files() {
        let config = config(r#"{"type":"host-local","subnet":"10.1.0.0/24"}"#).unwrap();
        let delegates = r#""delegates":["ipam-ds-ranges","ipam-ds-docker","ipam-da-host-local"]"#;
        assert!(config.contains(delegates), "{config}");
    }

    #[test]
    fn another_ipam_plugin_is_a_chain_of_one_under_the_networks_name() {
        let config = config(r#"{"type":"static"}"#).unwrap();
        let names = [r#""delegates":["static"]"#, r#""name":"web""#];
        assert!(names.iter().all(|text| config.contains(text)), "{config}");
    }

    #[test]
    fn a_configuration_that_cannot_serve_docker_is_refused() {
        for (ipam, why) in [
            (r#"{"type":"dhcp"}"#, "the delegate dhcp"),
            (
                r#"{"type":"ipam-delegated","delegates":["ipam-da-dhcp"]}"#,
                "the delegate ipam-da-dhcp",
            ),
            ("{}", "ipam.type is missing"),
            ("null", "no plugin has an ipam section"),
        ] {
            let refused = config(ipam).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
