//! Runs the plugins of a network configuration list, as runtimes do: ADD in order, DEL in
//! reverse order. Specification, section 3, "Execution of Network Configurations".

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use chain::{Execution, SearchPath};
use cni::{Command, DelegateName, Environment, NetworkConfig, Object};
use serde_json::json;
use serde_json::value::RawValue;

use crate::http::refusal::{Refusal, impossible};
use crate::ipam::delegate_log::DelegateLog;
use crate::network::namespaces::{IFNAME, is_there};
use crate::state::endpoint::Endpoint;

/// The longest that a plugin may take, as long as the kubelet gives a runtime
/// (`runtimeRequestTimeout`).
const LONGEST: Duration = Duration::from_secs(120);

/// Runs plugins.
pub(crate) struct PluginRunner {
    /// The environment of every call.
    environment: Environment,
}

impl PluginRunner {
    /// Plugins that are found in this `CNI_PATH`, with these variables.
    pub(crate) fn new(cni_path: &str, variables: Vec<(OsString, OsString)>) -> Self {
        let environment: Environment = variables.into_iter().collect();
        Self {
            environment: environment.with("CNI_PATH", cni_path),
        }
    }

    /// The environment of every call.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The execution of programs that inherit this lock.
    pub(crate) fn execution<'a>(&'a self, lock: Option<BorrowedFd<'a>>) -> Execution<'a> {
        Execution {
            environment: &self.environment,
            timeout: LONGEST,
            lock,
        }
    }

    /// Refuses a configuration with a plugin that isn't there: it could not be undone.
    ///
    /// # Errors
    ///
    /// The first plugin that isn't there.
    pub(crate) fn find_all(&self, list: &Object) -> Result<(), Refusal> {
        let search_path = SearchPath::from_environment(&self.environment)?;
        for name in names(list)? {
            search_path
                .find(&name)
                .map_err(|failure| impossible(format!("{name}: {}", failure.to_error().msg)))?;
        }
        Ok(())
    }
}

/// ADD of all plugins; returns their results. If one fails, all may have to be undone.
///
/// # Errors
///
/// The failed plugin's, with its name.
pub(crate) fn add(
    execution: &Execution<'_>,
    list: &Object,
    endpoint: &Endpoint,
) -> Result<Vec<Box<RawValue>>, Refusal> {
    let mut results: Vec<Box<RawValue>> = Vec::new();
    for plugin in plugins(list)? {
        let config = config(list, &plugin, endpoint, results.last().map(|last| &**last))?;
        match call(execution, Command::Add, &plugin, &config, endpoint)? {
            Some(output) => results.push(output),
            None => {
                let name = name(&plugin)?;
                return Err(impossible(format!(
                    "{name}: succeeded, but printed no result"
                )));
            }
        }
    }
    match results.is_empty() {
        true => Err(impossible("the network configuration lists no plugin")),
        false => Ok(results),
    }
}

/// DEL of all plugins, whatever fails.
///
/// # Errors
///
/// Those of all that fail.
pub(crate) fn del(
    execution: &Execution<'_>,
    list: &Object,
    endpoint: &Endpoint,
) -> Result<(), Refusal> {
    let result = endpoint.raw_result();
    let mut failed = Vec::new();
    for plugin in plugins(list)?.iter().rev() {
        let config = config(list, plugin, endpoint, result.as_deref())?;
        if let Err(why) = call(execution, Command::Del, plugin, &config, endpoint) {
            failed.push(why.to_string());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(impossible(failed.join("; "))),
    }
}

fn call(
    execution: &Execution<'_>,
    command: Command,
    plugin: &Object,
    config: &Object,
    endpoint: &Endpoint,
) -> Result<Option<Box<RawValue>>, Refusal> {
    let netns = &endpoint.netns;
    let is_there = is_there(Path::new(netns));
    let is_there = is_there.map_err(|error| impossible(format!("{netns}: {error}")))?;
    let environment = execution
        .environment
        .clone()
        .with("CNI_CONTAINERID", endpoint.container_id())
        .with("CNI_IFNAME", IFNAME)
        .with("CNI_ARGS", &endpoint.args)
        // DEL must work without it, which an empty value says.
        .with("CNI_NETNS", if is_there { netns } else { "" });
    let execution = Execution {
        environment: &environment,
        ..*execution
    };
    let config = serde_json::to_vec(config).expect("an object is JSON");
    let config = NetworkConfig::parse(config)?;
    let output = execution.plugin(command, &name(plugin)?, &config, &DelegateLog)?;
    Ok(output.map(|output| output.json().to_owned()))
}

/// The names of all plugins, in order.
///
/// # Errors
///
/// A plugin has no name.
pub(crate) fn names(list: &Object) -> Result<Vec<DelegateName>, Refusal> {
    plugins(list)?.iter().map(name).collect()
}

/// The plugin's executable.
fn name(plugin: &Object) -> Result<DelegateName, Refusal> {
    let kind: String = plugin.read("", "type")?.unwrap_or_default();
    let name = kind.parse();
    name.map_err(|error| impossible(format!("type {kind:?}: {error}")))
}

fn plugins(list: &Object) -> Result<Vec<Object>, Refusal> {
    Ok(list.read("", "plugins")?.unwrap_or_default())
}

/// The configuration of one plugin in one call.
fn config(
    list: &Object,
    plugin: &Object,
    endpoint: &Endpoint,
    result: Option<&RawValue>,
) -> Result<Object, Refusal> {
    let mut config = plugin.clone();
    for key in ["cniVersion", "name"] {
        if let Some(value) = list.get(key) {
            config.set(key, value);
        }
    }
    let capabilities: Object = plugin.read("", "capabilities")?.unwrap_or_default();
    config.remove("capabilities");
    if capabilities.read::<bool>("capabilities", "mac")? == Some(true)
        && !endpoint.plugged.mac.is_empty()
    {
        config.set("runtimeConfig", &json!({"mac": endpoint.plugged.mac}));
    }
    if let Some(ipam) = config.read::<Object>("", "ipam")?
        && !endpoint.plugged.addresses.is_empty()
    {
        config.set("ipam", &given_addresses(&ipam, &endpoint.plugged.addresses));
    }
    if let Some(result) = result {
        config.set("prevResult", result);
    }
    Ok(config)
}

/// The `ipam` section for addresses that Docker gives: the reference plugin `static`, with
/// the routes and the DNS of the configuration.
fn given_addresses(ipam: &Object, addresses: &[(String, String)]) -> Object {
    let address = |(address, gateway): &(String, String)| {
        let is_routed = !gateway.is_empty();
        match is_routed {
            true => json!({"address": address, "gateway": gateway}),
            false => json!({"address": address}),
        }
    };
    let mut given = Object::new();
    given.set("type", "static");
    given.set(
        "addresses",
        &addresses.iter().map(address).collect::<Vec<_>>(),
    );
    for key in ["routes", "dns"] {
        if let Some(value) = ipam.get(key) {
            given.set(key, value);
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::state::caller_line::Plugged;

    fn object(json: &Value) -> Object {
        serde_json::from_value(json.clone()).unwrap()
    }

    fn endpoint() -> Endpoint {
        Endpoint {
            plugged: Plugged {
                id: "e1".to_owned(),
                network: "n1".to_owned(),
                mac: "02:42:0a:00:00:02".to_owned(),
                addresses: Vec::new(),
            },
            list: String::new(),
            netns: "/nowhere".to_owned(),
            args: String::new(),
            result: None,
            sandbox: None,
        }
    }

    fn config_of(plugin: &Value, endpoint: &Endpoint) -> Value {
        let list = object(&json!({"cniVersion": "1.0.0", "name": "net", "plugins": []}));
        let config = config(&list, &object(plugin), endpoint, None).unwrap();
        serde_json::to_value(config).unwrap()
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
    fn dockers_addresses_take_the_place_of_the_configurations() {
        let mut endpoint = endpoint();
        endpoint.plugged.addresses = vec![("10.0.0.5/24".to_owned(), "10.0.0.1".to_owned())];
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
