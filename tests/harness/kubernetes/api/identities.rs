//! Users of the API server with their kubeconfigs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::KubernetesApi;

/// The service account of the nodes, in `kube-system`.
const NODES_ACCOUNT: &str = "ipam-delegated";

impl KubernetesApi {
    /// The kubeconfig of an administrator, who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root().join("administrator.kubeconfig")
    }

    /// The kubeconfig of a node, like the installer's: its token is bound to a pod of the
    /// DaemonSet on this node.
    pub fn kubeconfig_of_node(&self, node: &str) -> PathBuf {
        self.kubeconfig_with_token(&format!("node-{node}"), &self.token_of_node(node))
    }

    /// A token of the nodes' service account that is bound to a pod on this node.
    pub fn token_of_node(&self, node: &str) -> String {
        self.token_in_pod(NODES_ACCOUNT, node)
    }

    /// A token of a service account of `kube-system`, bound to a new pod on this node.
    pub fn token_in_pod(&self, account: &str, node: &str) -> String {
        let name = format!("{account}-{node}");
        let pods = "/api/v1/namespaces/kube-system/pods";
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {
                "nodeName": node,
                "serviceAccountName": account,
                "automountServiceAccountToken": false,
                "containers": [{"name": "installer", "image": "none"}],
            },
        });
        let created = self.request("POST", pods, &pod);
        assert!(created.is_success() || created.status == 409, "{created:?}");
        let pod = self.succeed("GET", &format!("{pods}/{name}"), &Value::Null);
        self.token("kube-system", account, Some(&pod))
    }

    /// The kubeconfig of a service account in an existing namespace. Its token is not bound to a
    /// pod.
    pub fn kubeconfig_of_account(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.token(namespace, account, None);
        self.kubeconfig_with_token(&format!("{namespace}-{account}"), &token)
    }

    /// The kubeconfig of a user with a certificate for this name.
    pub fn kubeconfig_of_user(&self, user: &str) -> PathBuf {
        let files = self.authority.sign(user, &[]);
        let path = self.root().join(format!("user-{user}.kubeconfig"));
        let user = json!({"client-certificate": files.cert, "client-key": files.key});
        self.write_kubeconfig(&path, &self.url(), &user);
        path
    }

    /// A kubeconfig with this token; `name` is the file's name without extension.
    pub fn kubeconfig_with_token(&self, name: &str, token: &str) -> PathBuf {
        let path = self.root().join(format!("{name}.kubeconfig"));
        self.write_kubeconfig(&path, &self.url(), &json!({"token": token}));
        path
    }

    /// Writes a kubeconfig with the same user for another URL, such as a proxy's; returns its
    /// path.
    pub fn kubeconfig_for_server(&self, kubeconfig: &Path, name: &str, url: &str) -> PathBuf {
        let text = fs::read_to_string(kubeconfig).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let path = self.root().join(format!("{name}.kubeconfig"));
        self.write_kubeconfig(&path, url, &config["users"][0]["user"].take());
        path
    }

    pub(super) fn write_kubeconfig(&self, path: &Path, server: &str, user: &Value) {
        let cluster = json!({"server": server, "certificate-authority": self.ca()});
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
            "current-context": "test",
        });
        fs::write(path, config.to_string()).unwrap();
        // The installer's mode: plugins log a warning if others may read the file.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}
