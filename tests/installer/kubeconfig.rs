//! The image's entry point with `--kubeconfig`: the plugins' kubeconfig is installed, renewed, and
//! removed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{
    Authority, Installation, KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, Staying,
    installer_executable, needs,
};
use serde_json::{Value, json};

/// An installation, and a folder with a service account's files.
#[derive(Default)]
struct World(Installation);

impl World {
    fn new(ca: &Path, token: &str) -> Self {
        let world = Self::default();
        fs::create_dir(world.account()).unwrap();
        fs::copy(ca, world.account().join("ca.crt")).unwrap();
        world.set_token(token);
        world
    }

    fn account(&self) -> PathBuf {
        self.0.path("account")
    }

    fn file(&self) -> PathBuf {
        self.0.path("cni/net.d/plugins.kubeconfig")
    }

    /// Replaces the token atomically, as the kubelet does.
    fn set_token(&self, token: &str) {
        let new = self.account().join("new");
        fs::write(&new, token).unwrap();
        fs::rename(new, self.account().join("token")).unwrap();
    }

    fn words(&self) -> [String; 3] {
        [
            format!("--kubeconfig={}", self.file().display()),
            format!("--service-account={}", self.account().display()),
            "--node=worker-1".to_owned(),
        ]
    }

    fn stay(&self, host: &str, port: &str) -> Staying {
        let mut command = Command::new(installer_executable());
        command.env("KUBERNETES_SERVICE_HOST", host);
        command.env("KUBERNETES_SERVICE_PORT", port);
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.0.stay_by(command, &self.0.release("1.0.0"), &words)
    }

    /// True if the kubeconfig has this token.
    fn has(&self, token: &str) -> bool {
        let content = fs::read(self.file()).unwrap_or_default();
        let config: Value = serde_json::from_slice(&content).unwrap_or_default();
        config["users"][0]["user"]["token"] == token
    }
}

#[test]
fn a_kubeconfig_is_installed_renewed_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let world = World::new(&Authority::new(root.path()).ca(), "first");
    let staying = world.stay("fd00::1", "443");
    staying.wait(|ready, _| ready);
    assert!(world.has("first"));
    let mode = fs::metadata(world.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let config = fs::read_to_string(world.file()).unwrap();
    assert!(config.contains("\"https://[fd00::1]:443\""), "{config}");

    world.set_token("second");
    staying.wait(|_, _| world.has("second"));
    fs::remove_file(world.file()).unwrap();
    staying.wait(|_, _| world.has("second"));
    fs::remove_file(world.account().join("token")).unwrap();
    staying.wait(|ready, said| !ready && said.contains("kubeconfig: ") && said.contains("token"));
    assert!(world.has("second"));
    world.set_token("third");
    staying.wait(|ready, _| ready && world.has("third"));
    let log = staying.log();
    for secret in ["first", "second", "third"] {
        assert!(!log.contains(secret), "{log}");
    }
    assert!(staying.terminate());

    let release = world.0.release("1.0.0");
    let [file, account, _] = world.words();
    let words = ["--uninstall", &file, &account];
    assert!(world.0.call(&release, &words).run().status.success());
    assert!(!world.file().exists());
}

#[test]
fn without_the_api_servers_address_the_reason_is_named() {
    let root = tempfile::tempdir().unwrap();
    let world = World::new(&Authority::new(root.path()).ca(), "first");
    let release = world.0.release("1.0.0");
    let [file, account, _] = world.words();
    let words = ["--once", &file, &account];
    let output = world.0.call(&release, &words).run();
    output.ends(1);
    let reason = "no API server is known: KUBERNETES_SERVICE_HOST";
    assert!(output.stderr.contains(reason), "{}", output.stderr);
}

#[test]
fn the_api_server_knows_the_node_by_the_installed_kubeconfig() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    let world = World::new(&api.ca(), &api.token_of_node("worker-1"));
    let (host, port) = KubernetesApi::ADDRESS.split_once(':').unwrap();
    let staying = world.stay(host, port);
    staying.wait(|ready, _| ready);
    let who = api.kubectl_with(&world.file(), &["auth", "whoami", "-o", "json"]);
    assert!(who.status.success(), "{who:?}");
    let who: Value = serde_json::from_slice(&who.stdout).unwrap();
    let user = &who["status"]["userInfo"];
    assert_eq!(
        user["username"],
        "system:serviceaccount:kube-system:ipam-delegated"
    );
    let node = &user["extra"]["authentication.kubernetes.io/node-name"];
    assert_eq!(*node, json!(["worker-1"]));
}
