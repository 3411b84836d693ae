//! Selects the proxy for the API server, from the kubeconfig or the environment.

use cluster::{EngineError, Kind};
use cni::Environment;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::kubeconfig::{Kubeconfig, refused};

/// A proxy.
pub(super) struct Proxy {
    pub(super) proxy: Intercept,
    /// The key or the variable that names it.
    pub(super) named_by: &'static str,
}

/// The proxy for requests to the kubeconfig's API server; `None` to connect directly.
///
/// As with kubectl, the kubeconfig's `proxy-url` precedes `HTTPS_PROXY` and `HTTP_PROXY`. A server
/// on this machine is reached directly, unless `proxy-url` is set.
///
/// # Errors
///
/// [`Kind::Settings`], naming the key or the variable. The value isn't shown: it may contain a
/// password.
pub(super) fn proxy(
    kubeconfig: &Kubeconfig,
    environment: Option<&Environment>,
) -> Result<Option<Proxy>, EngineError> {
    let server = &kubeconfig.server;
    let why = "it must be an http URL such as http://10.0.0.1:3128";
    if let Some(url) = &kubeconfig.proxy {
        let found = Matcher::builder()
            .all(url.as_str())
            .build()
            .intercept(server);
        return match found.filter(is_http) {
            Some(proxy) => Ok(Some(Proxy {
                proxy,
                named_by: "proxy-url of the kubeconfig",
            })),
            None => Err(refused(&kubeconfig.path, &format_args!("proxy-url: {why}"))),
        };
    }
    let host = server.host().unwrap_or_default();
    let Some(environment) = environment.filter(|_| !is_this_machine(host)) else {
        return Ok(None);
    };
    let value = |name: &str| match environment.text(name) {
        text if text.is_empty() => environment.text(&name.to_ascii_lowercase()),
        text => text,
    };
    let name = match server.scheme_str() {
        Some("http") => "HTTP_PROXY",
        _ => "HTTPS_PROXY",
    };
    let url = value(name);
    if url.is_empty() {
        return Ok(None);
    }
    let all = Matcher::builder().all(url.as_str());
    // An invalid URL in the variable means no proxy, like an exception in NO_PROXY.
    let Some(proxy) = all.build().intercept(server).filter(is_http) else {
        return Err(EngineError::new(Kind::Settings, format!("{name}: {why}")));
    };
    let all = Matcher::builder().all(url).no(value("NO_PROXY"));
    let named_by = name;
    let is_used = all.build().intercept(server).is_some();
    Ok(is_used.then_some(Proxy { proxy, named_by }))
}

fn is_http(proxy: &Intercept) -> bool {
    proxy.uri().scheme_str() == Some("http")
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
