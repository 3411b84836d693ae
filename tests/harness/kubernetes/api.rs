//! The API server of Kubernetes and its etcd, without nodes, controllers and scheduler.
//!
//! ```no_run
//! # use harness::{KubernetesApi, needs, KUBECTL, KUBERNETES_PROGRAMS};
//! needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
//! let mut api = KubernetesApi::start().unwrap();
//! api.enter();
//! api.install();
//! let kubeconfig = api.kubeconfig_of_node("worker-1");
//! let held = api.kubectl(&["get", "addresses", "--no-headers"]);
//! api.control_plane.stop_api_server();
//! // Plugins with this kubeconfig fail now.
//! api.control_plane.start_api_server();
//! ```

mod identities;
mod objects;
mod proxy;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::control_plane::{ADMINISTRATOR, ControlPlane};
use crate::KUBECTL;
use crate::waiting::wait_or_say;
use crate::{Authority, CertificateFiles, Namespace, repository};

pub use proxy::{ApiProxy, Fate, ProxiedRequest};
pub(crate) use proxy::{answer, read_request};

/// The API server, in separate namespaces. A process that uses it must run in its network
/// namespace: see [`Self::enter`].
pub struct KubernetesApi {
    /// The API server and its etcd.
    pub control_plane: ControlPlane,
    authority: Authority,
    /// Certificate of the API server, and of proxies on the loopback interface.
    certificate: CertificateFiles,
    root: TempDir,
}

impl KubernetesApi {
    /// The resources of our API group.
    pub const RESOURCES: [&str; 2] = ["pools", "addresses"];

    /// Host and port of the API server in its network namespace.
    pub const ADDRESS: &str = ControlPlane::API;

    /// The client URL of the API server's etcd, in the same namespace.
    pub const ETCD: &str = super::control_plane::ETCD;

    /// Starts etcd and the API server, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Namespaces can't be made.
    pub fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    /// As [`Self::start`], with further arguments of `kube-apiserver`.
    pub fn start_with(arguments: &[&str]) -> Result<Self, String> {
        let root = TempDir::with_prefix("ipam-delegated-api-").unwrap();
        let authority = Authority::new(&root.path().join("authority"));
        let certificate = authority.sign("api", &[ControlPlane::HOST, "127.0.0.1"]);
        let mut all = vec![
            format!("--tls-cert-file={}", certificate.cert.display()),
            format!("--tls-private-key-file={}", certificate.key.display()),
            format!("--client-ca-file={}", authority.ca().display()),
        ];
        all.extend(arguments.iter().map(|word| (*word).to_owned()));
        let api = Self {
            control_plane: ControlPlane::launch(root.path(), Some(authority.ca()), &all)?,
            authority,
            certificate,
            root,
        };
        let user = json!({"token": ADMINISTRATOR});
        api.write_kubeconfig(&api.kubeconfig(), &api.url(), &user);
        api.control_plane.wait_until_ready();
        Ok(api)
    }

    /// A folder that is removed with the API server.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The URL of the API server in its network namespace.
    pub fn url(&self) -> String {
        format!("https://{}", Self::ADDRESS)
    }

    /// The certificate of the authority that has signed the API server's certificate.
    pub fn ca(&self) -> PathBuf {
        self.authority.ca()
    }

    /// The authority that signs the certificates of the API server and of users. A user's name is
    /// the common name.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Moves the calling thread into the network namespace of the API server, with all processes
    /// and threads that it starts later.
    pub fn enter(&self) {
        self.namespace().enter();
    }

    /// The network namespace of the API server.
    pub fn namespace(&self) -> Namespace {
        Namespace::of(self.control_plane.node())
    }

    /// Runs kubectl as the administrator, from any network namespace; returns its stdout.
    #[track_caller]
    pub fn kubectl(&self, words: &[&str]) -> String {
        let output = self.kubectl_with(&self.kubeconfig(), words);
        assert!(output.status.success(), "kubectl {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs kubectl with a kubeconfig; it may fail.
    pub fn kubectl_with(&self, kubeconfig: &Path, words: &[&str]) -> Output {
        let mut command = self.control_plane.node().command(KUBECTL);
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // For kubectl's cache, in the mount namespace.
            .env("HOME", "/run")
            .env("KUBECONFIG", kubeconfig);
        command.output().unwrap()
    }

    /// The objects of a resource, as `kubectl get` with these further words shows them.
    #[track_caller]
    pub fn get(&self, resource: &str, words: &[&str]) -> Vec<Value> {
        let words = [&["get", resource, "-o", "json"], words].concat();
        let mut list: Value = serde_json::from_str(&self.kubectl(&words)).unwrap();
        match list["items"].take() {
            Value::Array(items) => items,
            _ => vec![list],
        }
    }

    /// Runs a command of kubectl with objects, such as `create`; the API server may refuse them.
    pub fn try_with(&self, verb: &str, kubeconfig: &Path, objects: &Value) -> Output {
        let file = tempfile::NamedTempFile::new_in(self.root()).unwrap();
        let content = match objects {
            Value::Array(items) => json!({"apiVersion": "v1", "kind": "List", "items": items}),
            object => object.clone(),
        };
        fs::write(&file, content.to_string()).unwrap();
        self.kubectl_with(kubeconfig, &[verb, "-f", file.path().to_str().unwrap()])
    }

    /// Applies objects as the administrator.
    #[track_caller]
    pub fn apply(&self, objects: &Value) {
        let output = self.try_with("apply", &self.kubeconfig(), objects);
        assert!(output.status.success(), "{objects}: {output:?}");
    }

    /// Applies a kustomization of the repository.
    #[track_caller]
    pub fn apply_folder(&self, folder: &str) {
        let folder = repository().join(folder);
        self.kubectl(&["apply", "-k", folder.to_str().unwrap()]);
    }

    /// Applies `docs/kubernetes-cluster-pool`, and waits until the API server has the kinds and
    /// enforces the policy.
    pub fn install(&self) {
        self.apply_folder("docs/kubernetes-cluster-pool");
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]);
        for resource in Self::RESOURCES {
            let path = Self::path(resource, "");
            self.wait_for(&path, || self.control_plane.get(&path).is_some());
        }
        self.wait_until_enforced();
    }

    /// Waits until the policy refuses a violation.
    fn wait_until_enforced(&self) {
        let address = json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "Address",
            "metadata": {"name": "10.0.0.1"},
            "spec": {
                "pool": "probe", "ip": "10.0.0.1", "node": "probe", "network": "probe",
                "containerID": "probe", "ifname": "probe", "since": ""
            },
        });
        let path = Self::path("addresses", "") + "?dryRun=All";
        let token = self.token_of_node("another");
        self.wait_for("nodes.ipam-delegated.io", || {
            let refusal = self
                .control_plane
                .request_as(&token, "POST", &path, &address);
            refusal
                .is_ok_and(|refusal| refusal.body.to_string().contains("nodes.ipam-delegated.io"))
        });
    }

    /// The log of the API server.
    pub fn log(&self) -> String {
        let log = self.root().join("control-plane").join("kube-apiserver.log");
        fs::read_to_string(log).unwrap_or_default()
    }

    /// Waits until `holds` is true.
    #[track_caller]
    pub fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        wait_or_say(holds, || what);
    }
}
