//! Runs the plugins of a network configuration list, as runtimes do: ADD in order, DEL in
//! reverse order. Specification, section 3, "Execution of Network Configurations".

use anyhow::{Context, Result, ensure};
use chain::{Execution, SearchPath};
use cni::{Command, DelegateName, Environment, NetworkConfig, Object};
use docker_records::records::IFNAME;
use serde_json::json;
use serde_json::value::RawValue;

use crate::http::refusal::message;
use crate::ipam::chain_config::{LEASES, parse};
use crate::ipam::plugins::DelegateLog;
use crate::network::endpoint::Endpoint;
use crate::network::namespaces::Namespace;

/// The capability of a plugin that publishes ports (CNI's `CONVENTIONS.md`).
const PORT_MAPPINGS: &str = "portMappings";

/// True if a plugin of the list publishes ports.
///
/// # Errors
///
/// The list's capabilities are wrong.
pub(crate) fn publishes_ports(list: &NetworkConfig) -> Result<bool> {
    for (_, plugin) in plugins(list)? {
        let capabilities = plugin.section("", "capabilities")?.unwrap_or_default();
        if capabilities.read_exact("capabilities", PORT_MAPPINGS)? == Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a configuration with a plugin that isn't installed: an endpoint could not be undone. Refuses
/// one whose leases would not be renewed.
///
/// # Errors
///
/// The first missing plugin, or the delegate with leases.
pub(crate) fn find_all(list: &NetworkConfig, environment: &Environment) -> Result<()> {
    let search_path = SearchPath::from_environment(environment)?;
    for (name, plugin) in plugins(list)? {
        let ipam: Object = plugin.read("", "ipam")?.unwrap_or_default();
        let delegates: Vec<String> = ipam.read("ipam", "delegates")?.unwrap_or_default();
        let kind: Option<String> = ipam.read("ipam", "type")?;
        ensure!(
            !delegates.iter().chain(&kind).any(|name| name == LEASES),
            "ipam has {LEASES}: Docker moves the interface to another namespace, where its lease \
             would not be renewed"
        );
        let found = search_path.find(&name);
        found.map_err(|failure| failure.error).context(name)?;
    }
    Ok(())
}

/// ADD of all plugins; returns their results. If one fails, the caller must undo all.
///
/// # Errors
///
/// The failed plugin's, with its name.
pub(crate) fn add(execution: &Execution<'_>, endpoint: &Endpoint) -> Result<Vec<Box<RawValue>>> {
    let mut results: Vec<Box<RawValue>> = Vec::new();
    for (name, plugin) in plugins(&endpoint.config)? {
        let config = config(&plugin, endpoint, results.last().map(|last| &**last))?;
        let result = call(execution, Command::Add, &name, &config, endpoint)?;
        results.push(result.with_context(|| format!("{name}: succeeded, but printed no result"))?);
    }
    Ok(results)
}

/// DEL of all plugins, also after a failure.
///
/// # Errors
///
/// Those of all failed plugins.
pub(crate) fn del(execution: &Execution<'_>, endpoint: &Endpoint) -> Result<()> {
    let mut failed = Vec::new();
    for (name, plugin) in plugins(&endpoint.config)?.iter().rev() {
        let config = config(plugin, endpoint, endpoint.result.as_deref())?;
        if let Err(error) = call(execution, Command::Del, name, &config, endpoint) {
            failed.push(message(&error));
        }
    }
    ensure!(failed.is_empty(), failed.join("; "));
    Ok(())
}

fn call(
    execution: &Execution<'_>,
    command: Command,
    name: &DelegateName,
    config: &Object,
    endpoint: &Endpoint,
) -> Result<Option<Box<RawValue>>> {
    let namespace = Namespace::of(&endpoint.line.id);
    // Without one, it is empty: DEL must work without a namespace.
    let netns = namespace.is_there()?.then(|| namespace.path());
    let environment = execution
        .environment
        .clone()
        .with("CNI_CONTAINERID", endpoint.container_id())
        .with("CNI_IFNAME", IFNAME)
        .with("CNI_ARGS", &endpoint.args)
        .with("CNI_NETNS", netns.unwrap_or_default());
    let execution = Execution {
        environment: &environment,
        ..*execution
    };
    let config = parse(config)?;
    let output = execution.plugin(command, name, &config, &DelegateLog)?;
    Ok(output.map(|output| output.json().to_owned()))
}

/// The names of all plugins, in order.
///
/// # Errors
///
/// A plugin has no name.
pub(crate) fn names(list: &NetworkConfig) -> Result<Vec<DelegateName>> {
    let plugins = plugins(list)?.into_iter();
    Ok(plugins.map(|(name, _)| name).collect())
}

/// The plugins, each with the name of its executable.
fn plugins(list: &NetworkConfig) -> Result<Vec<(DelegateName, Object)>> {
    let plugins: Option<Vec<Object>> = list.read("plugins")?;
    let named = |plugin: Object| {
        let kind: String = plugin.read("", "type")?.unwrap_or_default();
        let name = kind.parse().with_context(|| format!("type {kind:?}"))?;
        Ok((name, plugin))
    };
    plugins.into_iter().flatten().map(named).collect()
}

/// The configuration of one plugin in one call.
fn config(plugin: &Object, endpoint: &Endpoint, result: Option<&RawValue>) -> Result<Object> {
    let mut config = plugin.clone();
    config.set("cniVersion", endpoint.config.version().as_str());
    config.set("name", endpoint.config.name());
    let capabilities = plugin.section("", "capabilities")?.unwrap_or_default();
    // libcni reads their names exactly.
    let declares = |name| capabilities.read_exact("capabilities", name);
    config.remove("capabilities");
    let line = &endpoint.line;
    let mut runtime = Object::new();
    if declares("mac")? == Some(true) && !line.mac.is_empty() {
        runtime.set("mac", &line.mac);
    }
    if declares(PORT_MAPPINGS)? == Some(true) && !line.ports.is_empty() {
        runtime.set(PORT_MAPPINGS, &line.ports);
    }
    if runtime.keys().next().is_some() {
        config.set("runtimeConfig", &runtime);
    }
    if let Some(ipam) = config.read("", "ipam")?
        && !line.addresses.is_empty()
    {
        config.set("ipam", &given_addresses(&ipam, &line.addresses));
    }
    if let Some(result) = result {
        config.set("prevResult", result);
    }
    Ok(config)
}

/// The `ipam` section for addresses that Docker gives: the reference plugin `static`, with
/// the routes and the DNS of the configuration.
fn given_addresses(ipam: &Object, addresses: &[(String, String)]) -> Object {
    let address = |(address, gateway): &(String, String)| match gateway.as_str() {
        "" => json!({"address": address}),
        gateway => json!({"address": address, "gateway": gateway}),
    };
    let addresses: Vec<_> = addresses.iter().map(address).collect();
    let mut given = Object::new();
    given.set("type", "static");
    given.set("addresses", &addresses);
    for key in ["routes", "dns"] {
        if let Some(value) = ipam.get(key) {
            given.set(key, value);
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::Value;

    use super::*;
    use docker_records::records::{EndpointLine, PortMapping};

    fn list() -> NetworkConfig {
        let list = json!({"cniVersion": "1.0.0", "name": "net", "plugins": []});
        NetworkConfig::parse(list.to_string().into_bytes()).unwrap()
    }

    fn object(json: &Value) -> Object {
        serde_json::from_value(json.clone()).unwrap()
    }

    fn endpoint() -> Endpoint {
        Endpoint {
            line: EndpointLine {
                id: "e1".to_owned(),
                mac: "02:42:0a:00:00:02".to_owned(),
                ..EndpointLine::default()
            },
            config: list(),
            args: String::new(),
            result: None,
            is_made: false,
            added: SystemTime::UNIX_EPOCH,
        }
    }

    fn config_of(plugin: &Value, endpoint: &Endpoint) -> Value {
        let config = config(&object(plugin), endpoint, None).unwrap();
        serde_json::to_value(config).unwrap()
    }

    #[test]
    fn leases_that_nobody_would_renew_are_refused() {
        let environment = Environment::default().with("CNI_PATH", "/nowhere");
        for ipam in [
            r#"{"type":"ipam-da-dhcp"}"#,
            r#"{"type":"ipam-delegated","delegates":["ipam-da-dhcp"]}"#,
        ] {
            let list = format!(
                r#"{{"cniVersion":"1.0.0","name":"net","plugins":[{{"type":"bridge","ipam":{ipam}}}]}}"#
            );
            let list = NetworkConfig::parse(list.into_bytes()).unwrap();
            let refusal = find_all(&list, &environment).unwrap_err().to_string();
            assert!(refusal.starts_with("ipam has ipam-da-dhcp"), "{refusal}");
        }
    }

    #[test]
    fn a_plugin_gets_the_lists_name_and_what_it_is_capable_of() {
        let plugin = json!({"type": "bridge", "capabilities": {"mac": true, "ips": true}, "ipam": {"type": "x"}});
        assert_eq!(
            config_of(&plugin, &endpoint()),
            json!({"cniVersion": "1.0.0", "name": "net", "type": "bridge", "ipam": {"type": "x"},
                   "runtimeConfig": {"mac": "02:42:0a:00:00:02"}})
        );
    }

    #[test]
    fn published_ports_go_to_the_plugin_that_publishes_them() {
        let mut endpoint = endpoint();
        endpoint.line.ports = vec![PortMapping {
            host_port: 8080,
            container_port: 80,
            protocol: "tcp".to_owned(),
            host_ip: String::new(),
        }];
        let plugin = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        assert_eq!(
            config_of(&plugin, &endpoint)["runtimeConfig"],
            json!({"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]})
        );
        assert_eq!(
            config_of(&json!({"type": "bridge"}), &endpoint).get("runtimeConfig"),
            None
        );
    }

    #[test]
    fn dockers_addresses_take_the_place_of_the_configurations() {
        let mut endpoint = endpoint();
        endpoint.line.addresses = vec![("10.0.0.5/24".to_owned(), "10.0.0.1".to_owned())];
        let plugin = json!({"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}});
        assert_eq!(
            config_of(&plugin, &endpoint)["ipam"],
            json!({"type": "static", "addresses": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}], "routes": [{"dst": "0.0.0.0/0"}]})
        );
        // A plugin without addresses gets none.
        assert_eq!(
            config_of(&json!({"type": "tuning"}), &endpoint).get("ipam"),
            None
        );
    }
}
