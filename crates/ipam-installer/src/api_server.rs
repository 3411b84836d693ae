//! Reads the subnets of a node from the cluster's API server, as the pod's service account.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ipnet::IpNet;
use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error};

/// Variables that the kubelet sets in each container.
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// Time limit of the whole request, from the connection to the end of the answer.
const MOST_TIME: Duration = Duration::from_secs(5);

/// Most bytes of an answer. A Node lists the node's images, and has some 100 KiB.
const MOST_BYTES: u64 = 8 << 20;

/// Most characters of an answer in a message.
const MOST_SHOWN: usize = 300;

/// The keys of a Node that are read.
#[derive(Deserialize)]
struct NodeObject {
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Default, Deserialize)]
struct NodeSpec {
    #[serde(default, rename = "podCIDRs")]
    pod_cidrs: Vec<IpNet>,
}

/// The API server's answer to a refused request.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// Reads `spec.podCIDRs` of the Node with this name. `account` is the folder with the service
/// account's token and the authority's certificate.
///
/// # Errors
///
/// It can't be read, or the Node has none. The error names the URL.
pub(crate) fn pod_cidrs(account: &Path, node: &str) -> Result<Vec<IpNet>> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
    ensure!(node.chars().all(is_name), "{node:?} is no name of a node");
    let url = format!("https://{}/api/v1/nodes/{node}", address()?);
    let read = || -> Result<Vec<IpNet>> {
        let answer = get(&url, account)?;
        let object: NodeObject = serde_json::from_slice(&answer)?;
        let subnets = object.spec.pod_cidrs;
        ensure!(!subnets.is_empty(), "the Node has no spec.podCIDRs");
        Ok(subnets)
    };
    read().with_context(|| format!("GET {url}"))
}

/// Host and port of the API server, from the variables that the kubelet sets in each container.
///
/// # Errors
///
/// A variable is missing.
pub(crate) fn address() -> Result<String> {
    let value = |name| env::var(name).with_context(|| format!("no API server is known: {name}"));
    let (host, port) = (value(HOST)?, value(PORT)?);
    Ok(match host.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        _ => format!("{host}:{port}"),
    })
}

/// The body of the answer to a GET request.
fn get(url: &str, account: &Path) -> Result<Vec<u8>> {
    // Read for each request, because the kubelet replaces the token before it expires.
    let token = read_file(&account.join("token"))?;
    let token = String::from_utf8(token).context("the token is not UTF-8")?;
    let agent = agent(&account.join("ca.crt"))?;
    let request = agent
        .get(url)
        .header("Authorization", format!("Bearer {}", token.trim()))
        .header("Accept", "application/json");
    let mut response = request.call().map_err(explained)?;
    let status = response.status();
    let body = response.body_mut().with_config().limit(MOST_BYTES);
    let body = body.read_to_vec().map_err(explained)?;
    if status.as_u16() != 200 {
        let said = match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => refusal.message,
            Err(_) => String::from_utf8_lossy(&body).into_owned(),
        };
        let said: String = said.chars().take(MOST_SHOWN).collect();
        return Err(anyhow!("{status}: {said}"));
    }
    Ok(body)
}

/// A client that trusts only this authority.
fn agent(authority: &Path) -> Result<Agent> {
    let pem = read_file(authority)?;
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(it) = item.with_context(|| authority.display().to_string())? {
            certificates.push(it);
        }
    }
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .https_only(true)
        .http_status_as_error(false)
        .max_redirects(0)
        // Ignores the proxy variables of the environment.
        .proxy(None)
        .timeout_global(Some(MOST_TIME))
        .build();
    Ok(config.new_agent())
}

fn read_file(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| {
        let file = file.display();
        format!("{file}: the pod has no service account that may read its Node")
    })
}

fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::Timeout(_) => anyhow!("no answer within {} seconds", MOST_TIME.as_secs()),
        other => other.into(),
    }
}
