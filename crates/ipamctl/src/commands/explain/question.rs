//! The call of `ipamctl explain`: an ADD with the facts of the command line, which runs only the
//! chain's selectors.

use anyhow::Result;
use chain::{Chain, Outcome, Plugins};
use cni::{
    Call, ContainerId, DelegateName, Environment, IfName, LinkedPlugin, NetworkConfig, Object,
};
use ipam::Pool;
use ipam_ds_ranges::IpamDsRanges;
use ipam_ds_rules::IpamDsRules;
use ipam_ds_rules::explain::{ANNOTATIONS, Tried};
use ipam_ds_static::IPAM_DS_STATIC;
use plugin::Linked;
use serde::Serialize;
use serde_json::json;

use super::explanation::Selector;
use crate::arguments::ExplainArguments;
use crate::node::network::{RANGES, RULES, with_keys};
use crate::node::{Network, Node, of_answer};

/// The fact that names the container.
const CONTAINER_ID: &str = "containerID";

/// The container of the question, unless a fact names another.
const CONTAINER: &str = "ipamctl-explain";

/// Facts that are no keys of `CNI_ARGS`.
const LABEL: &str = "label:";
const ANNOTATION: &str = "annotation:";

/// The call that an ADD would be.
pub(super) struct Question {
    pub(super) config: NetworkConfig,
    pub(super) environment: Environment,
}

impl Question {
    pub(super) fn read(
        network: &Network,
        node: &Node,
        arguments: &ExplainArguments,
    ) -> Result<Self> {
        let (mut container, mut ifname) = (CONTAINER.to_owned(), "eth0".to_owned());
        let mut args = vec!["IgnoreUnknown=1".to_owned()];
        let (mut labels, mut annotations) = (Vec::new(), Object::new());
        for (key, value) in &arguments.facts {
            if let Some(key) = key.strip_prefix(LABEL) {
                labels.push(json!({"key": key, "value": value}));
            } else if let Some(key) = key.strip_prefix(ANNOTATION) {
                annotations.set(key, value);
            } else {
                match key.as_str() {
                    CONTAINER_ID => container.clone_from(value),
                    "ifname" => ifname.clone_from(value),
                    _ => args.push(format!("{key}={value}")),
                }
            }
        }
        let config = with_keys(&network.config, |config, ipam| {
            if !labels.is_empty() {
                nested(config, &["args", "cni", "labels"], &labels);
            }
            if annotations.keys().next().is_some() {
                nested(config, &["runtimeConfig", ANNOTATIONS], &annotations);
            }
            // A cache can't be created there: an explanation must leave no file behind.
            ipam.set("cacheDir", "/proc/none");
        })?;
        let bad = |key: &str, error: cni::InvalidName| anyhow::anyhow!("{key}: {error}");
        let container: ContainerId = container.parse().map_err(|e| bad(CONTAINER_ID, e))?;
        let ifname: IfName = ifname.parse().map_err(|e| bad("ifname", e))?;
        let environment = node
            .environment
            .clone()
            .with("CNI_CONTAINERID", container.as_str())
            .with("CNI_IFNAME", ifname.as_str())
            .with("CNI_NETNS", "/run/netns/ipamctl-explain")
            .with("CNI_ARGS", args.join(";"));
        Ok(Self {
            config,
            environment,
        })
    }

    /// The rules of `ipam-ds-rules` that are tried, if it is in the chain. The selector refuses an
    /// invalid catalogue.
    pub(super) fn rules(&self, network: &Network) -> Vec<Tried> {
        if !network.has_delegate(RULES) {
            return Vec::new();
        }
        let call = Call::new(self.config.clone(), &self.environment);
        let explanation = ipam_ds_rules::explain::explain(&call);
        explanation.map_or_else(|_| Vec::new(), |explanation| explanation.tried)
    }

    /// Runs the selectors; returns what each has answered, and the pools of the last one.
    pub(super) fn select(&self, no_exec: bool) -> Result<(Vec<Selector>, Vec<Pool>)> {
        let (ranges, rules) = (Linked(&IpamDsRanges), Linked(&IpamDsRules));
        let linked: [&dyn LinkedPlugin; 3] = [&ranges, &rules, &Linked(&IPAM_DS_STATIC)];
        let plugins = Plugins::in_cni_path(&self.environment)?.and_linked(&linked);
        let chain = Chain::new(&self.config, &self.environment, plugins)?;
        let runs = |name: &DelegateName| name.is_selector() && (!no_exec || is_ours(name));
        let (mut selectors, mut pools) = (Vec::new(), Vec::new());
        for (name, outcome) in chain.dry_run(runs) {
            let (answer, error) = match outcome {
                Outcome::Result(output) => (Some(output.json().to_owned()), None),
                Outcome::Nothing => (None, Some("it printed nothing".to_owned())),
                Outcome::Failed(failure) => (None, Some(failure.to_error().to_string())),
            };
            if let Some(answer) = &answer {
                pools = of_answer(answer).map_err(anyhow::Error::msg)?;
            }
            selectors.push(Selector {
                name: name.to_string(),
                answer,
                error,
            });
        }
        Ok((selectors, pools))
    }
}

/// True for a selector that runs in this process.
pub(super) fn is_ours(name: &DelegateName) -> bool {
    [RANGES, RULES, "ipam-ds-static"].contains(&name.as_str())
}

/// Sets a key of nested objects.
fn nested<T: Serialize + ?Sized>(object: &mut Object, path: &[&str], value: &T) {
    match path {
        [] => {}
        [key] => object.set(key, value),
        [key, rest @ ..] => {
            let mut inner: Object = object.read("", key).ok().flatten().unwrap_or_default();
            nested(&mut inner, rest, value);
            object.set(key, &inner);
        }
    }
}
