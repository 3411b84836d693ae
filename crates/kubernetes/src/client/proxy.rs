//! Selects the proxy for the API server, from the kubeconfig or the environment.

use std::net::IpAddr;

use cluster::{EngineError, Kind};
use cni::Environment;
use http::Uri;
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
/// As with kubectl, the kubeconfig's `proxy-url` precedes `HTTPS_PROXY` and `HTTP_PROXY`, and has
/// no exceptions. Entries of `NO_PROXY` have the forms of `hyper_util`, which are fewer than
/// kubectl's: no `*.domain`, no address in brackets, no port, and `*` is for names only.
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
    let Some(environment) = environment else {
        return Ok(None);
    };
    let value = |name: &str| match environment.text(name) {
        text if text.is_empty() => environment.text(&name.to_ascii_lowercase()),
        text => text,
    };
    let named_by = match server.scheme_str() {
        Some("http") => "HTTP_PROXY",
        _ => "HTTPS_PROXY",
    };
    let url = value(named_by);
    // Any valid proxy tells whether the server is an exception, even if the variable's is invalid.
    let exceptions = Matcher::builder().all("http://proxy").no(value("NO_PROXY"));
    let is_excepted = exceptions.build().intercept(server).is_none();
    if url.is_empty() || is_excepted || is_this_machine(server) {
        return Ok(None);
    }
    let found = Matcher::builder().all(url).build().intercept(server);
    match found.filter(is_http) {
        Some(proxy) => Ok(Some(Proxy { proxy, named_by })),
        None => {
            let msg = format!("{named_by}: {why}, or NO_PROXY must except the API server");
            Err(EngineError::new(Kind::Settings, msg))
        }
    }
}

fn is_http(proxy: &Intercept) -> bool {
    proxy.uri().scheme_str() == Some("http")
}

/// True if the server's address is a loopback address. Like kubectl, such a server is reached
/// directly.
fn is_this_machine(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let ip: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}
