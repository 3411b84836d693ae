//! The cluster's API server, as the pod's service account: the plugins' kubeconfig, and the request
//! for the node's subnets.
//!
//! The kubelet replaces the mounted token before it expires; the next look then writes the
//! kubeconfig again. URL, token and authority are in one file, so that they always match. The file
//! is JSON, which is also YAML.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

use crate::arguments::Arguments;
use crate::mark::INSTALLER;
use crate::path_context::PathContext;
use crate::time_limit::within;

/// Name of the cluster, the user, and the extension that contains the node's name.
const NAME: &str = "ipam-delegated.io";

/// Longest time of the request, from the connection to the end of the answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The text of the kubeconfig.
///
/// # Errors
///
/// The pod has no service account, or no API server is known.
pub(crate) fn kubeconfig(arguments: &Arguments) -> Result<String> {
    let account = &arguments.service_account;
    let file = |name: &str| {
        let path = account.join(name);
        fs::read_to_string(&path).at(&path)
    };
    let (token, authority) = (file("token")?, file("ca.crt")?);
    let cluster = json!({
        "server": api_server_url()?,
        "certificate-authority-data": STANDARD.encode(&authority),
    });
    let context = json!({
        "cluster": NAME,
        "user": NAME,
        "extensions": [{"name": NAME, "extension": {"node": arguments.node}}],
    });
    let config = json!({
        "installedBy": INSTALLER,
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token.trim()}}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
    });
    Ok(serde_json::to_string_pretty(&config)? + "\n")
}

/// Reads `spec.podCIDRs` of this node's Node.
///
/// # Errors
///
/// It can't be read, or the Node has none. The error names the URL.
pub(crate) fn node_subnets(arguments: &Arguments) -> Result<Vec<IpNet>> {
    let node = arguments.node.as_deref();
    let node = node.context("--node doesn't say which node this is")?;
    let account =
        kubeconfig(arguments).context("the pod has no service account that may read its Node")?;
    let request = format!("GET {}/api/v1/nodes/{node}", api_server_url()?);
    within(TIME_LIMIT, "no answer", pod_cidrs(&account, node)).context(request)
}

async fn pod_cidrs(account: &str, node: &str) -> Result<Vec<IpNet>> {
    let options = KubeConfigOptions::default();
    let account = Kubeconfig::from_yaml(account)?;
    let mut config = Config::from_custom_kubeconfig(account, &options).await?;
    // A proxy of the environment is not for the cluster's API server.
    config.proxy_url = None;
    let nodes: Api<Node> = Api::all(Client::try_from(config)?);
    let node = nodes.get(node).await.map_err(|error| match error {
        kube::Error::Api(status) => anyhow!("{} {}", status.code, status.message),
        other => other.into(),
    })?;
    let spec = node.spec.unwrap_or_default();
    let subnets = spec.pod_cidrs.unwrap_or_default();
    ensure!(!subnets.is_empty(), "the Node has no spec.podCIDRs");
    subnets.iter().map(|subnet| Ok(subnet.parse()?)).collect()
}

/// URL of the API server, by the variables that the kubelet sets.
///
/// # Errors
///
/// A variable is missing.
fn api_server_url() -> Result<String> {
    let value = |name| env::var(name).with_context(|| format!("no API server is known: {name}"));
    let host = value("KUBERNETES_SERVICE_HOST")?;
    let port = value("KUBERNETES_SERVICE_PORT")?;
    Ok(match host.parse() {
        Ok(IpAddr::V6(ip)) => format!("https://[{ip}]:{port}"),
        _ => format!("https://{host}:{port}"),
    })
}
