//! Network configurations of the chains that serve Docker.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use chain::record::state_dir;
use cni::{Environment, Error, NetworkConfig, NetworkName, Object};
use ipam::IpNet;
use serde_json::json;

use crate::command_line::CommandLine;
use crate::pool_filter::{self, Wanted};
use crate::state::pool::{LOCAL, Pool, network_config, range_of};

/// The delegates of networks that name no network configuration. They also replace `host-local`
/// in one: they read its configuration and write its files.
const OURS: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// A delegate that needs the container's network namespace and interface. Docker asks for an
/// address before there is either.
const DHCP: &str = "dhcp";

/// The configuration of a pool that no network configuration serves.
pub(crate) fn of_subnet(space: &NetworkName, subnet: IpNet, arguments: &CommandLine) -> Object {
    let subnet = subnet.to_string().replace(':', "_").replace('/', "-");
    let mut config = Object::new();
    config.set("cniVersion", "1.1.0");
    let name = match space.as_str() {
        LOCAL => format!("docker-{subnet}"),
        other => format!("docker-{other}-{subnet}"),
    };
    config.set("name", &name);
    config.set("type", pool_filter::NAME);
    config.set(
        "ipam",
        &json!({
            "type": "ipam-delegated",
            "delegates": OURS,
            "dataDir": arguments.data_dir,
            "stateDir": arguments.records(),
            "cacheDir": arguments.cache_dir,
        }),
    );
    config
}

/// The configuration of a network configuration's chain: its plugin with an `ipam` section. Its key
/// `name` is `docker-<name>`, or `<name>` for a chain without a selector. `ipam.stateDir` is always
/// set, since tools that read the records have another environment.
///
/// # Errors
///
/// There is no such plugin, or its `ipam` is wrong.
pub(crate) fn of_conflist(
    list: &Object,
    name: &NetworkName,
    environment: &Environment,
) -> Result<Object> {
    let plugins: Vec<Object> = list.read("", "plugins")?.unwrap_or_default();
    let has_ipam = |plugin: &Object| plugin.get("ipam").is_some_and(|raw| raw.get() != "null");
    let plugin = plugins.into_iter().find(has_ipam);
    let mut config =
        plugin.with_context(|| format!("conflist {name}: no plugin has an ipam section"))?;
    if let Some(version) = list.get("cniVersion") {
        config.set("cniVersion", version);
    }
    let mut ipam: Object = config.read("", "ipam")?.unwrap_or_default();
    let kind: Option<String> = ipam.read("ipam", "type")?;
    let kind = kind.with_context(|| format!("conflist {name}: ipam.type is missing"))?;
    let mut delegates: Vec<String> = match kind.as_str() {
        "ipam-delegated" => ipam.read("ipam", "delegates")?.unwrap_or_default(),
        "host-local" => OURS.map(str::to_owned).to_vec(),
        _ => vec![kind],
    };
    ensure!(
        delegates.iter().all(|name| name != DHCP),
        "conflist {name}: ipam has the delegate {DHCP}, which needs the container's network \
         namespace, and Docker asks for an address before there is one; with \
         --driver ipam-delegated --ipam-driver null, the namespace is there"
    );
    let is_selector = |name: &&String| cni::is_selector(name);
    match delegates.iter().take_while(is_selector).count() {
        // An allocator without pools knows only the network's name, so the name must be the same.
        0 => config.set("name", name),
        selectors => {
            config.set("name", &format!("docker-{name}"));
            delegates.insert(selectors, pool_filter::NAME.to_owned());
        }
    }
    ipam.set("type", "ipam-delegated");
    ipam.set("delegates", &delegates);
    // Docker keeps auxiliary addresses over a reboot and doesn't request them again, so they must
    // not be released.
    ipam.remove("reclaim");
    config.set("ipam", &ipam);
    ipam.set(
        "stateDir",
        &state_dir(&network_config(&config)?, environment)?,
    );
    config.set("ipam", &ipam);
    Ok(config)
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
        runtime.set("ipRanges", &[[range_of(subnet, None, None)]]);
    }
    let mut config = config.clone();
    config.set("runtimeConfig", &runtime);
    network_config(&config)
}

/// The configuration for one address of a pool.
///
/// # Errors
///
/// The pool's configuration is wrong.
pub(crate) fn of_address(
    pool: &Pool,
    requested: Option<IpAddr>,
    gateway: Option<IpAddr>,
) -> Result<NetworkConfig> {
    let mut config: Object = serde_json::from_str(&pool.config)?;
    // Docker may request an address of the pool that is not in the sub-pool.
    let is_inside = |range: &IpNet| requested.is_none_or(|ip| range.contains(&ip));
    let range = pool.range.filter(is_inside);
    let mut runtime = Object::new();
    if pool.is_given {
        runtime.set("ipRanges", &[[range_of(pool.subnet, range, gateway)]]);
    }
    if let Some(ip) = requested {
        runtime.set("ips", &[format!("{ip}/{}", pool.subnet.prefix_len())]);
    }
    config.set("runtimeConfig", &runtime);
    if let Some(name) = &pool.conflist {
        let wanted = Wanted {
            subnet: pool.subnet,
            range,
            requested,
            name: name.to_string(),
        };
        config.set(pool_filter::KEY, &wanted);
    }
    Ok(network_config(&config)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::state::pool::GLOBAL;

    fn arguments() -> CommandLine {
        CommandLine::parse_from(["docker-ipam-delegated"])
    }

    fn conflist(ipam: &str) -> Result<String, String> {
        let list = format!(
            r#"{{"cniVersion":"1.0.0","name":"web","plugins":[{{"type":"bridge","ipam":{ipam}}}]}}"#
        );
        let list = serde_json::from_str(&list).unwrap();
        let environment = Environment::default();
        let config = of_conflist(&list, &"web".parse().unwrap(), &environment);
        let config = config.map_err(|why| why.to_string())?;
        Ok(serde_json::to_string(&config).unwrap())
    }

    #[test]
    fn the_filter_stands_behind_the_selectors() {
        let ipam = r#"{"type":"ipam-delegated","delegates":["ipam-ds-rules","ipam-da-host-local"],"pools":{"a":{"subnet":"10.1.0.0/24"}}}"#;
        assert_eq!(
            conflist(ipam).unwrap(),
            r#"{"type":"bridge","ipam":{"type":"ipam-delegated","delegates":["ipam-ds-rules","docker-ipam-delegated","ipam-da-host-local"],"pools":{"a":{"subnet":"10.1.0.0/24"}},"stateDir":"/var/lib/cni/ipam-delegated"},"cniVersion":"1.0.0","name":"docker-web"}"#
        );
    }

    #[test]
    fn host_local_is_read_as_the_chain_that_keeps_its_files() {
        let config = conflist(r#"{"type":"host-local","subnet":"10.1.0.0/24"}"#).unwrap();
        let delegates =
            r#""delegates":["ipam-ds-ranges","docker-ipam-delegated","ipam-da-host-local"]"#;
        assert!(config.contains(delegates), "{config}");
    }

    #[test]
    fn another_ipam_plugin_is_a_chain_of_one_under_the_networks_name() {
        let config = conflist(r#"{"type":"static"}"#).unwrap();
        assert!(
            config.contains(r#""delegates":["static"]"#) && config.ends_with(r#""name":"web"}"#)
        );
    }

    #[test]
    fn nothing_is_released_because_the_machine_has_booted() {
        let ipam = r#"{"type":"host-local","subnet":"10.1.0.0/24","reclaim":"boot"}"#;
        assert!(!conflist(ipam).unwrap().contains("reclaim"));
    }

    #[test]
    fn dhcp_is_refused_since_there_is_no_namespace_to_ask_in() {
        for ipam in [
            r#"{"type":"dhcp"}"#,
            r#"{"type":"ipam-delegated","delegates":["dhcp"]}"#,
        ] {
            let refused = conflist(ipam).unwrap_err();
            assert!(
                refused.starts_with("conflist web: ipam has the delegate dhcp"),
                "{refused}"
            );
        }
    }

    #[test]
    fn each_refusal_names_the_configuration() {
        assert_eq!(
            conflist("null").unwrap_err(),
            "conflist web: no plugin has an ipam section"
        );
        assert_eq!(
            conflist("{}").unwrap_err(),
            "conflist web: ipam.type is missing"
        );
    }

    #[test]
    fn a_subnets_network_has_a_name_for_its_space() {
        let name = |space: &str, subnet: &str| {
            let (space, subnet) = (space.parse().unwrap(), subnet.parse().unwrap());
            let config = of_subnet(&space, subnet, &arguments());
            network_config(&config).unwrap().name().to_string()
        };
        assert_eq!(name(LOCAL, "10.201.0.0/24"), "docker-10.201.0.0-24");
        assert_eq!(name(LOCAL, "fd00:1::/64"), "docker-fd00_1__-64");
        assert_eq!(
            name(GLOBAL, "10.201.0.0/24"),
            "docker-ipam-delegated-global-10.201.0.0-24"
        );
    }

    #[test]
    fn a_sub_pool_bounds_the_range_but_for_an_address_that_is_requested_outside() {
        let pool = |requested: Option<&str>| {
            let config = of_subnet(
                &LOCAL.parse().unwrap(),
                "10.1.0.0/16".parse().unwrap(),
                &arguments(),
            );
            let pool = Pool {
                range: Some("10.1.0.0/24".parse().unwrap()),
                config: serde_json::to_string(&config).unwrap(),
                ..Pool::example("10.1.0.0/16")
            };
            let gateway = "10.1.0.254".parse().unwrap();
            let requested = requested.map(|text| text.parse().unwrap());
            let config = of_address(&pool, requested, Some(gateway)).unwrap();
            config
                .read::<serde_json::Value>("runtimeConfig")
                .unwrap()
                .unwrap()
                .to_string()
        };
        assert_eq!(
            pool(None),
            r#"{"ipRanges":[[{"gateway":"10.1.0.254","rangeEnd":"10.1.0.255","subnet":"10.1.0.0/16"}]]}"#
        );
        assert_eq!(
            pool(Some("10.1.9.9")),
            r#"{"ipRanges":[[{"gateway":"10.1.0.254","subnet":"10.1.0.0/16"}]],"ips":["10.1.9.9/16"]}"#
        );
    }
}
