//! The connection to an API server, behind a kubeconfig: `kube`'s client, with a connector of our own
//! and without repetitions. [`Kubernetes`] is a connection with the time limit of a call: `store` has
//! its verbs, `pages` its lists, `failure` the meaning of its errors.

use std::fmt::Display;
use std::path::Path;

use cluster::client::{Access, Executor};
use cluster::{DEFAULT_TIMEOUT, Kind, StoreError, TimeLimit};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::ServiceBuilder;

/// How a client sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requests {
    /// One after the other, by HTTP/1.
    OneByOne,
    /// Several at once on one connection, by HTTP/2 if the server has it.
    AtOnce,
}

/// Pools and addresses in Kubernetes' API. It connects with the first request.
pub struct Kubernetes<'a> {
    kube: kube::Client,
    executor: Executor,
    server: String,
    pub(crate) time: TimeLimit<'a>,
}

impl<'a> Kubernetes<'a> {
    /// The store behind a person's kubeconfig, which may execute a program for a token.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`], naming the file.
    pub fn of_person(kubeconfig: &Path) -> Result<Self, StoreError> {
        let time = TimeLimit::new(DEFAULT_TIMEOUT, None);
        Self::open(kubeconfig, true, Requests::OneByOne, time)
    }

    /// Reads a kubeconfig. `may_execute` says whether its `exec` may run: a plugin runs nothing from
    /// outside of `CNI_PATH`.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`], naming the file: it can't be read, is invalid, or needs what this client
    /// hasn't.
    pub(crate) fn open(
        kubeconfig: &Path,
        may_execute: bool,
        sent: Requests,
        time: TimeLimit<'a>,
    ) -> Result<Self, StoreError> {
        let refused = |why: &dyn Display| {
            StoreError::new(Kind::Settings, format!("{}: {why}", kubeconfig.display()))
        };
        let document = Kubeconfig::read_from(kubeconfig).map_err(|error| refused(&error))?;
        let clusters = document.clusters.iter();
        let mut clusters = clusters.filter_map(|named| named.cluster.as_ref());
        if clusters.any(|cluster| cluster.proxy_url.is_some()) {
            return Err(refused(&"proxy-url isn't supported"));
        }
        let executor = Executor::new()?;
        let connected = executor.run(
            connect(document, may_execute, sent),
            &TimeLimit::new(DEFAULT_TIMEOUT, None),
            DEFAULT_TIMEOUT,
            Access::Read,
        );
        let (kube, server) = connected
            .map_err(|_| refused(&"it can't be read in time"))?
            .map_err(|why| refused(&why))?;
        Ok(Self {
            kube,
            executor,
            server,
            time,
        })
    }

    /// Sends requests. An error of `kube` is an answer, too.
    pub(crate) fn send<T>(
        &self,
        access: Access,
        requests: impl AsyncFnOnce(kube::Client) -> kube::Result<T>,
    ) -> Result<kube::Result<T>, StoreError> {
        let requests = requests(self.kube.clone());
        let within = self.time.attempt();
        let outcome = self.executor.run(requests, &self.time, within, access);
        outcome.map_err(|error| self.named(error.kind, &error.msg))
    }

    /// Sends requests that change nothing.
    pub(crate) fn read_with<T>(
        &self,
        requests: impl AsyncFnOnce(kube::Client) -> kube::Result<T>,
    ) -> Result<T, StoreError> {
        let answer = self.send(Access::Read, requests)?;
        answer.map_err(|error| self.failure(&error, Access::Read))
    }

    /// A failure, with the API server's URL.
    pub(crate) fn named(&self, kind: Kind, why: &str) -> StoreError {
        StoreError::new(kind, format!("the API server {}: {why}", self.server))
    }
}

/// A client for the current context of a kubeconfig, and the API server's URL.
async fn connect(
    document: Kubeconfig,
    may_execute: bool,
    sent: Requests,
) -> Result<(kube::Client, String), String> {
    let current_context = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(document, &current_context).await;
    let config = config.map_err(|error| error.to_string())?;
    let auth = &config.auth_info;
    if auth.exec.is_some() && !may_execute || auth.auth_provider.is_some() {
        return Err("exec and auth-provider aren't supported".to_owned());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Without it, the first request waits for the delayed acknowledgement of the handshake.
    tcp.set_nodelay(true);
    let text = |error: kube::Error| cluster::client::reason(&error);
    let tls = match sent {
        // kube's connector offers HTTP/1 only, and knows another name of the server.
        Requests::AtOnce if config.tls_server_name.is_none() => {
            let mut tls = config.rustls_client_config().map_err(text)?;
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            HttpsConnector::from((tcp, tls))
        }
        _ => config
            .rustls_https_connector_with_connector(tcp)
            .map_err(text)?,
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(text)?)
        .layer(config.extra_headers_layer().map_err(text)?)
        .map_err(tower::BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(tls));
    let server = config.cluster_url.to_string();
    Ok((kube::Client::new(service, config.default_namespace), server))
}
