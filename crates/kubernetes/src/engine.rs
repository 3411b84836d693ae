//! `ipam.kubernetes` and `ipam.node`: which API server, and which node calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{DEFAULT_TIMEOUT, Engine, Inventory, Node, TimeLimit};
use cni::{Cancellation, Error, Object};
use kube::config::{Kubeconfig, NamedContext};

use crate::Kubernetes;
use crate::client::Requests;
use crate::names::is_dns_subdomain;

/// Name of the extension of a kubeconfig's context in which the installer writes the node's name.
const EXTENSION: &str = "ipam-delegated.io";

/// Value of `ipam.kubernetes` in messages.
const EXAMPLE: &str = "{\"kubeconfig\": \"/etc/cni/net.d/ipam-delegated.kubeconfig\"}";

/// Pools and addresses in Kubernetes' API.
pub const ENGINE: &dyn Engine = &KubernetesEngine;

#[derive(Debug)]
struct KubernetesEngine;

impl Engine for KubernetesEngine {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn open<'a>(
        &self,
        ipam: &Object,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Result<Box<dyn Inventory + 'a>, Error> {
        let settings = Settings::read(ipam)?;
        let time = TimeLimit::new(settings.timeout, cancellation);
        let store = Kubernetes::open(&settings.kubeconfig, false, Requests::OneByOne, time)?;
        Ok(Box::new(store))
    }

    fn file(&self, ipam: &Object) -> Result<PathBuf, Error> {
        Settings::read(ipam).map(|settings| settings.kubeconfig)
    }

    /// `ipam.node`, else the node that the kubeconfig names, else the host's name.
    fn node(&self, ipam: &Object) -> Result<Node, Error> {
        let configured: Option<String> = ipam.read("ipam", "node")?;
        let name = match configured.filter(|name| !name.is_empty()) {
            None => node_of_kubeconfig(&Settings::read(ipam)?.kubeconfig)?,
            name => name,
        };
        let node = match name {
            Some(name) => Node {
                name,
                machine: None,
            },
            None => Node::named(ipam)?,
        };
        if !is_dns_subdomain(&node.name) {
            return Err(Error::config(format!(
                "ipam.node: {:?} is no name of a Node object: it must be a DNS name in lower case",
                node.name
            )));
        }
        Ok(node)
    }
}

/// `ipam.kubernetes`.
pub(crate) struct Settings {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) timeout: Duration,
}

impl Settings {
    pub(crate) fn read(ipam: &Object) -> Result<Self, Error> {
        let path = "ipam.kubernetes";
        let settings: Option<Object> = ipam.read("ipam", "kubernetes")?;
        let settings = settings.unwrap_or_default();
        let kubeconfig = settings.absolute_path(path, "kubeconfig")?;
        let kubeconfig = kubeconfig.ok_or_else(|| {
            Error::config(format!("{path}.kubeconfig is missing, as in {EXAMPLE}"))
        })?;
        let timeout = settings.duration(path, "timeout")?;
        Ok(Self {
            kubeconfig,
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        })
    }
}

/// The node that a kubeconfig names; `None` if it has no extension of ours.
///
/// # Errors
///
/// Code 7 if it can't be read: another name would be a guess.
fn node_of_kubeconfig(path: &Path) -> Result<Option<String>, Error> {
    let document = Kubeconfig::read_from(path)
        .map_err(|error| Error::config(format!("{}: {error}", path.display())))?;
    let is_current = |named: &&NamedContext| Some(&named.name) == document.current_context.as_ref();
    let context = document.contexts.iter().find(is_current);
    let context = context.and_then(|named| named.context.as_ref());
    let mut extensions = context
        .into_iter()
        .flat_map(|context| context.extensions.iter().flatten());
    let ours = extensions.find(|named| named.name == EXTENSION);
    Ok(ours.and_then(|named| named.extension["node"].as_str().map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kubernetes: &str, node: &str) -> Result<Node, Error> {
        let ipam = format!(r#"{{"kubernetes":{kubernetes},"node":{node:?}}}"#);
        ENGINE.node(&serde_json::from_str(&ipam).unwrap())
    }

    #[test]
    fn without_ipam_node_the_node_is_the_kubeconfigs() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kubeconfig = |extension: &str| {
            let content = format!(
                r#"{{"current-context":"c","contexts":[{{"name":"c","context":{{"cluster":"c","extensions":
                    [{{"name":{extension:?},"extension":{{"node":"worker-1"}}}}]}}}}]}}"#
            );
            std::fs::write(file.path(), content).unwrap();
            node(&format!(r#"{{"kubeconfig":{:?}}}"#, file.path()), "")
        };
        assert_eq!(kubeconfig("ipam-delegated.io").unwrap().name, "worker-1");
        let others = kubeconfig("example.org");
        assert!(others.is_err() || others.unwrap().name != "worker-1");
        // What can't be read doesn't make it the host's name.
        let refused = node(r#"{"kubeconfig":"/nowhere/kubeconfig"}"#, "").unwrap_err();
        assert!(refused.msg.contains("/nowhere/kubeconfig"), "{refused}");
    }

    #[test]
    fn a_node_is_named_as_an_object_can_be() {
        let name = |name| node(r#"{"kubeconfig":"/none"}"#, name);
        assert_eq!(name("n1.example").unwrap().name, "n1.example");
        for wrong in ["N1", "n_1", "n1-", "a..b"] {
            let error = name(wrong).unwrap_err();
            assert_eq!(error.code, cni::code::INVALID_CONFIG);
            assert!(error.msg.contains("ipam.node"), "{error}");
        }
    }

    #[test]
    fn settings_need_a_kubeconfig() {
        for (settings, key) in [
            ("{}", "ipam.kubernetes.kubeconfig"),
            (r#"{"kubeconfig":"k"}"#, "ipam.kubernetes.kubeconfig"),
            (
                r#"{"kubeconfig":"/k","timeout":"1 fortnight"}"#,
                "ipam.kubernetes.timeout",
            ),
        ] {
            let error = node(settings, "").unwrap_err();
            assert!(error.msg.contains(key), "{error}");
        }
    }
}
