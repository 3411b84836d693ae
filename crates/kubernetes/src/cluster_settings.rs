//! A cluster as the configuration describes it: `ipam.kubernetes` and `ipam.node`.

use std::net::IpAddr;
use std::path::PathBuf;

use cluster::{ConfiguredCluster, Key, Node};
use cni::{Call, Cancellation, Environment, Error, Object};

use crate::names::object_of;
use crate::objects::path;
use crate::{Engine, Resource, Settings, kubeconfig};

/// Prefix in the names of the node's files: the folder may also have files of another engine.
const PREFIX: &str = "/kubernetes";

/// A Kubernetes cluster, and this node in it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `ipam.kubernetes`.
    pub settings: Settings,
    /// This node.
    pub node: Node,
    /// Variables for the requests of tools. A plugin's call has its own.
    environment: Environment,
}

impl Cluster {
    /// Reads the `ipam` section. The node's name is `ipam.node`, else the node in the kubeconfig,
    /// else the hostname.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, or the kubeconfig.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let settings = Settings::read(ipam)?;
        let is_named = cluster::configured_name(ipam)?.is_some();
        let name = match is_named {
            true => cluster::node_name(ipam)?,
            // The hostname may differ from the name of the Node object.
            false => match kubeconfig::node(&settings.kubeconfig)? {
                Some(name) => name,
                None => cluster::node_name(ipam)?,
            },
        };
        if !is_dns_subdomain(&name) {
            return Err(Error::config(format!(
                "ipam.node: {name:?} is no name of a Kubernetes object: it must be a DNS name in lower case, with at most 253 characters"
            )));
        }
        Ok(Self::new(settings, name, is_named))
    }

    /// The cluster of a kubeconfig, for a machine that isn't one of its nodes: the node's name is
    /// empty.
    pub fn without_node(kubeconfig: PathBuf) -> Self {
        Self::new(Settings::of_kubeconfig(kubeconfig), String::new(), false)
    }

    fn new(settings: Settings, node: String, is_named: bool) -> Self {
        // Without a readable kubeconfig, its path identifies the cluster, so that this node's
        // blocks are still found.
        let endpoint = kubeconfig::server(&settings.kubeconfig)
            .unwrap_or_else(|_| settings.kubeconfig.display().to_string());
        Self {
            node: Node {
                name: node,
                is_named,
                state_dir: settings.state_dir.clone(),
                cache_dir: settings.cache_dir.clone(),
                prefix: PREFIX.to_owned(),
                endpoints: vec![endpoint],
                timeout: settings.timeout,
            },
            settings,
            environment: Environment::default(),
        }
    }

    /// The same cluster, with these variables for the requests of a tool, such as `HTTPS_PROXY`.
    #[must_use]
    pub fn with_environment(mut self, environment: &Environment) -> Self {
        self.environment = environment.clone();
        self
    }

    /// The engine of a tool. `timeout` limits each request instead of the whole call, because a
    /// cluster may have large pools.
    pub fn kubernetes_engine(&self) -> Engine<'_> {
        let mut engine = Engine::of(self, &self.environment, None);
        engine.client.time.bound_each_request();
        engine
    }
}

impl ConfiguredCluster for Cluster {
    fn node(&self) -> &Node {
        &self.node
    }

    fn engine<'a>(
        &'a self,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Box<dyn cluster::Engine + 'a> {
        Box::new(Engine::of(self, &self.environment, cancellation))
    }

    /// This engine also notes the pod that the call names.
    fn engine_of<'a>(&'a self, call: &'a Call<'_>) -> Box<dyn cluster::Engine + 'a> {
        Box::new(Engine::new(self, call))
    }

    fn path(&self) -> String {
        "kubernetes".to_owned()
    }

    fn path_of_addresses(&self, pool: &str) -> String {
        format!("kubernetes:{}", path(Resource::Address, pool))
    }

    fn path_of_address(&self, pool: &str, ip: IpAddr) -> String {
        let object = object_of(&Key::Address(pool.to_owned(), ip));
        let name = object.map(|(_, name)| name).unwrap_or_default();
        format!("kubernetes:{}", path(Resource::Address, &name))
    }
}

/// True for a valid name of an object in Kubernetes' API: an RFC 1123 subdomain in lower case.
pub fn is_dns_subdomain(name: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_alphanumeric)
            && part.ends_with(is_alphanumeric)
            && part.chars().all(|c| is_alphanumeric(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(node: &str) -> Result<Cluster, Error> {
        let ipam = format!(r#"{{"kubernetes":{{"kubeconfig":"/none"}},"node":{node:?}}}"#);
        Cluster::read(&serde_json::from_str(&ipam).unwrap())
    }

    #[test]
    fn without_ipam_node_the_node_is_the_kubeconfigs() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |context: &str| {
            let config = format!(
                r#"{{"current-context":"c","clusters":[{{"name":"c","cluster":{{"server":"http://a"}}}}],
                    "contexts":[{{"name":"c","context":{{"cluster":"c"{context}}}}}]}}"#
            );
            std::fs::write(file.path(), config).unwrap();
            let ipam = format!(r#"{{"kubernetes":{{"kubeconfig":{:?}}}}}"#, file.path());
            Cluster::read(&serde_json::from_str(&ipam).unwrap())
        };
        let named =
            r#","extensions":[{"name":"ipam-delegated.io","extension":{"node":"worker-1"}}]"#;
        assert_eq!(read(named).unwrap().node.name, "worker-1");
        let of_others = r#","extensions":[{"name":"x","extension":{"node":"worker-1"}}]"#;
        let host = rustix::system::uname();
        assert_eq!(
            read(of_others).unwrap().node.name,
            host.nodename().to_str().unwrap()
        );
        std::fs::remove_file(file.path()).unwrap();
        let ipam = r#"{"kubernetes":{"kubeconfig":"/none"}}"#;
        let missing = Cluster::read(&serde_json::from_str(ipam).unwrap()).unwrap_err();
        assert!(missing.msg.contains("/none"), "{missing}");
    }

    #[test]
    fn a_node_is_named_as_an_object_can_be() {
        assert_eq!(cluster("n1.example").unwrap().node.name, "n1.example");
        for name in ["N1", "n_1", "n1-", "a..b"] {
            let error = cluster(name).unwrap_err();
            assert_eq!(error.code, cni::code::INVALID_CONFIG);
            assert!(
                error.msg.starts_with(&format!("ipam.node: {name:?} ")),
                "{error}"
            );
        }
    }

    #[test]
    fn dns_subdomains_are_told_from_other_names() {
        for name in ["a", "blue.10.0.0.5", "blue.fd00-0-0-0-0-0-0-5", "0"] {
            assert!(is_dns_subdomain(name), "{name}");
        }
        for name in [
            "",
            ".",
            "a.",
            "-a",
            "a_b",
            "A",
            "a b",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(!is_dns_subdomain(name), "{name}");
        }
    }
}
