//! Runs the plugins of a network configuration list, as runtimes do: ADD in order, DEL in
//! reverse order. Specification, section 3, "Execution of Network Configurations".

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use cni::{DelegateName, Object};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::namespaces::is_namespace;
use crate::refusal::{Refusal, impossible};

/// Runs plugins.
pub(crate) struct PluginRunner {
    /// The folders of the plugins.
    pub(crate) cni_path: String,
    /// The environment of every call.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// The attachment that plugins are called for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attached {
    /// Its container ID.
    pub(crate) container_id: String,
    /// The path of its network namespace.
    pub(crate) netns: String,
    /// `CNI_ARGS`.
    pub(crate) args: String,
    /// The MAC address that Docker gives it, or nothing.
    pub(crate) mac: String,
    /// The addresses that Docker gives it, each with its gateway.
    pub(crate) addresses: Vec<(String, String)>,
}

/// The interface inside the namespace.
pub(crate) const IFNAME: &str = "eth0";

impl PluginRunner {
    /// Refuses a configuration with a plugin that isn't there: it could not be undone.
    ///
    /// # Errors
    ///
    /// The first plugin that isn't there.
    pub(crate) fn find_all(&self, list: &Object) -> Result<(), Refusal> {
        for plugin in plugins(list)? {
            self.find(&name(&plugin)?)?;
        }
        Ok(())
    }

    /// ADD of all plugins; the result is the last one's. If one fails, DEL of all.
    ///
    /// # Errors
    ///
    /// The failed plugin's, with its name.
    pub(crate) fn add(&self, list: &Object, attached: &Attached) -> Result<Box<RawValue>, Refusal> {
        let mut result: Option<Box<RawValue>> = None;
        for plugin in plugins(list)? {
            let config = config(list, &plugin, attached, result.as_deref())?;
            match self.call(&plugin, "ADD", &config, attached) {
                Ok(output) => result = Some(output),
                Err(why) => {
                    if let Err(error) = self.del(list, attached, None) {
                        tracing::warn!(%error, "the plugins can't be undone");
                    }
                    return Err(why);
                }
            }
        }
        result.ok_or_else(|| impossible("the network configuration lists no plugin"))
    }

    /// DEL of all plugins, whatever fails.
    ///
    /// # Errors
    ///
    /// Those of all that fail.
    pub(crate) fn del(
        &self,
        list: &Object,
        attached: &Attached,
        result: Option<&RawValue>,
    ) -> Result<(), Refusal> {
        let mut failed = Vec::new();
        for plugin in plugins(list)?.iter().rev() {
            let config = config(list, plugin, attached, result)?;
            if let Err(why) = self.call(plugin, "DEL", &config, attached) {
                failed.push(why.to_string());
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(impossible(failed.join("; "))),
        }
    }

    fn call(
        &self,
        plugin: &Object,
        command: &str,
        config: &Object,
        attached: &Attached,
    ) -> Result<Box<RawValue>, Refusal> {
        let kind = name(plugin)?;
        let path = self.find(&kind)?;
        let is_there = is_namespace(Path::new(&attached.netns));
        let mut process = Command::new(path)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .env("CNI_COMMAND", command)
            .env("CNI_PATH", &self.cni_path)
            .env("CNI_CONTAINERID", &attached.container_id)
            .env("CNI_IFNAME", IFNAME)
            .env("CNI_ARGS", &attached.args)
            // DEL must work without it, which an empty value says.
            .env("CNI_NETNS", if is_there { &attached.netns } else { "" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| impossible(format!("{kind}: {error}")))?;
        let stdin = serde_json::to_vec(config).expect("an object is JSON");
        let pipe = process.stdin.take();
        let mut stderr = process.stderr.take();
        let (output, said) = thread::scope(|scope| {
            scope.spawn(move || {
                // A plugin that doesn't read it to its end needs no more of it.
                pipe.map(|mut pipe| pipe.write_all(&stdin))
            });
            let said = scope.spawn(move || {
                let mut said = String::new();
                if let Some(stderr) = &mut stderr {
                    let _ = stderr.read_to_string(&mut said);
                }
                said
            });
            (process.wait_with_output(), said.join().unwrap_or_default())
        });
        for line in said.lines() {
            tracing::warn!(plugin = %kind, "{line}");
        }
        let output = output.map_err(|error| impossible(format!("{kind}: {error}")))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let error: Option<Value> = serde_json::from_str(&stdout).ok();
            let message = error.as_ref().and_then(|it| it["msg"].as_str());
            let message = message.map_or_else(|| output.status.to_string(), str::to_owned);
            return Err(impossible(format!("{kind}: {message}")));
        }
        if command != "ADD" {
            return Ok(RawValue::NULL.to_owned());
        }
        RawValue::from_string(stdout).map_err(|error| impossible(format!("{kind}: {error}")))
    }

    fn find(&self, name: &DelegateName) -> Result<PathBuf, Refusal> {
        let paths = std::env::split_paths(&self.cni_path);
        let mut files = paths.map(|folder| folder.join(name.as_str()));
        files
            .find(|file| file.is_file())
            .ok_or_else(|| impossible(format!("{name}: no such plugin in {}", self.cni_path)))
    }
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
    attached: &Attached,
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
    if capabilities.read::<bool>("capabilities", "mac")? == Some(true) && !attached.mac.is_empty() {
        config.set("runtimeConfig", &json!({"mac": attached.mac}));
    }
    if let Some(ipam) = config.read::<Object>("", "ipam")?
        && !attached.addresses.is_empty()
    {
        config.set("ipam", &given_addresses(&ipam, &attached.addresses));
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
    use super::*;

    fn object(json: &Value) -> Object {
        serde_json::from_value(json.clone()).unwrap()
    }

    fn attached() -> Attached {
        Attached {
            container_id: "docker-e1".to_owned(),
            netns: "/nowhere".to_owned(),
            args: String::new(),
            mac: "02:42:0a:00:00:02".to_owned(),
            addresses: Vec::new(),
        }
    }

    fn config_of(plugin: &Value, attached: &Attached) -> Value {
        let list = object(&json!({"cniVersion": "1.0.0", "name": "net", "plugins": []}));
        let config = config(&list, &object(plugin), attached, None).unwrap();
        serde_json::to_value(config).unwrap()
    }

    #[test]
    fn a_plugin_gets_the_lists_name_and_what_it_is_capable_of() {
        let plugin = json!({"type": "bridge", "capabilities": {"mac": true, "ips": true}, "ipam": {"type": "x"}});
        assert_eq!(
            config_of(&plugin, &attached()),
            json!({"cniVersion": "1.0.0", "name": "net", "type": "bridge", "ipam": {"type": "x"},
                   "runtimeConfig": {"mac": "02:42:0a:00:00:02"}})
        );
    }

    #[test]
    fn dockers_addresses_take_the_place_of_the_configurations() {
        let mut attached = attached();
        attached.addresses = vec![("10.0.0.5/24".to_owned(), "10.0.0.1".to_owned())];
        let plugin = json!({"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}});
        assert_eq!(
            config_of(&plugin, &attached)["ipam"],
            json!({"type": "static", "addresses": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}], "routes": [{"dst": "0.0.0.0/0"}]})
        );
        // A plugin without addresses gets none.
        assert_eq!(
            config_of(&json!({"type": "tuning"}), &attached).get("ipam"),
            None
        );
    }
}
