//! A cluster with pools in Kubernetes' API, with its administrator and its nodes.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Call, Flavour, Form, KubernetesApi, Output, Sandbox};
use serde_json::{Value, json};

/// The API server with our kinds, and a sandbox for processes that use it.
pub(super) struct Administered {
    pub(super) api: KubernetesApi,
    pub(super) sandbox: Sandbox,
}

impl Administered {
    /// Creates these pools by an import, as on a machine without a conflist.
    pub(super) fn with_pools(pools: &Value) -> Self {
        let api = KubernetesApi::start().unwrap();
        api.enter();
        api.install();
        let sandbox = Sandbox::in_form(Flavour::Normal, Form::of_this_run())
            .with_network_plugins(Flavour::Normal);
        let cluster = Self { api, sandbox };
        let imported = cluster.import(pools, &[]);
        assert_eq!(imported.status.code(), Some(0), "{imported:?}");
        cluster
    }

    /// `ipamctl import` of pools, as the administrator.
    pub(super) fn import(&self, pools: &Value, words: &[&str]) -> Output {
        let file = self.sandbox.root().join("pools.json");
        fs::write(&file, pools.to_string()).unwrap();
        self.administer(&[&["import", file.to_str().unwrap()], words].concat())
    }

    /// `ipamctl` with the administrator's kubeconfig and no conflist.
    pub(super) fn administer(&self, words: &[&str]) -> Output {
        self.administer_as(&self.api.kubeconfig(), words)
    }

    /// `ipamctl` with this kubeconfig and no conflist.
    pub(super) fn administer_as(&self, kubeconfig: &Path, words: &[&str]) -> Output {
        self.ipamctl_as(kubeconfig, words).run()
    }

    /// A call of `ipamctl` with this kubeconfig and no conflist.
    pub(super) fn ipamctl_as(&self, kubeconfig: &Path, words: &[&str]) -> Call {
        let option = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let empty = self.sandbox.root().join("no-conflists");
        let _ = fs::create_dir(&empty);
        let conf_dir = ["--conf-dir", empty.to_str().unwrap()];
        self.sandbox.ipamctl(&[words, &option, &conf_dir].concat())
    }

    /// A network `net` on a node, with this pool. Each node has its folders.
    pub(super) fn config(&self, node: &str, delegates: &[&str], pool: &str) -> Value {
        let folder = self.sandbox.root().join(node);
        let kubeconfig: PathBuf = self.api.kubeconfig_of_node(node);
        self.sandbox.config(
            "1.1.0",
            &[&["ipam-ds-static"], delegates].concat(),
            &json!({
                "pools": [{"name": pool}],
                "kubernetes": {
                    "kubeconfig": kubeconfig,
                    "timeout": "20s",
                    "cacheDir": folder.join("cache"),
                    "stateDir": folder.join("kubernetes-state"),
                },
                "node": node,
                "dataDir": folder.join("networks"),
                "stateDir": folder.join("state"),
            }),
        )
    }

    /// A call of the chain for a container.
    pub(super) fn call(&self, command: &str, container: &str, config: &Value) -> Output {
        let call = self.sandbox.call("ipam-delegated", command, config);
        call.container(container).run()
    }

    /// The names of all addresses.
    pub(super) fn addresses(&self) -> Vec<String> {
        let all = self.api.get("addresses.ipam-delegated.io", &[]);
        let names = all
            .iter()
            .map(|address| address["metadata"]["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }
}

/// The JSON output of a call with `--json`.
#[track_caller]
pub(super) fn json_of(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The address in the result of an ADD.
#[track_caller]
pub(super) fn ip_of(output: &Output) -> String {
    let result = output.result();
    let address = result["ips"][0]["address"].as_str().unwrap();
    address.split('/').next().unwrap().to_owned()
}
