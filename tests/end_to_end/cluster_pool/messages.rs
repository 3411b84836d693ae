//! Messages of the plugins for Kubernetes, word for word, as `testdata/messages-kubernetes.json` has
//! them: a person sees them in `kubectl describe pod`.
//!
//! With `UPDATE_MESSAGES` set, the test replaces the file.

mod said;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use crate::messages::are_recorded;
use said::Said;

#[test]
fn each_message_is_the_recorded_one() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut said = Said::new();
    wrong_settings(&mut said);
    wrong_kubeconfigs(&mut said);
    ways_to_the_api_server(&mut said);
    credentials(&mut said);
    answers(&mut said);
    pools(&mut said);
    blocks(&mut said);
    the_cluster(&mut said);
    are_recorded("messages-kubernetes.json", said.all);
}

/// Changes the kubeconfig's user.
fn user(user: Value) -> impl FnOnce(&mut Value) {
    move |config| config["users"][0]["user"] = user
}

/// Changes a key of the kubeconfig's cluster.
fn cluster(key: &'static str, value: Value) -> impl FnOnce(&mut Value) {
    move |config| config["clusters"][0]["cluster"][key] = value
}

/// Errors in the `ipam` section.
fn wrong_settings(said: &mut Said) {
    let change = |said: &mut Said, what: &str, change: &dyn Fn(&mut Value)| {
        let mut config = said.config("lan");
        change(&mut config["ipam"]);
        said.add(what, &config);
    };
    change(said, "no ipam.kubernetes", &|ipam| {
        ipam.as_object_mut().unwrap().remove("kubernetes");
    });
    change(said, "ipam.kubernetes without kubeconfig", &|ipam| {
        let keys = ipam["kubernetes"].as_object_mut().unwrap();
        keys.remove("kubeconfig");
    });
    change(said, "ipam.node is no name of a Node", &|ipam| {
        ipam["node"] = json!("Worker_1");
    });
    let root = said.root();
    change(said, "the kubeconfig isn't there", &|ipam| {
        ipam["kubernetes"]["kubeconfig"] = json!(root.join("nowhere"));
    });
    change(said, "the kubeconfig is a folder", &|ipam| {
        ipam["kubernetes"]["kubeconfig"] = json!(root);
    });
}

/// Errors in kubeconfigs.
fn wrong_kubeconfigs(said: &mut Said) {
    for (what, content) in [
        ("the kubeconfig is empty", ""),
        ("the kubeconfig is no YAML", "users: [\n"),
        ("the kubeconfig has other content", "users: [1]\n"),
    ] {
        let kubeconfig = said.write("other.kubeconfig", content);
        said.add_with(what, &kubeconfig);
    }
    said.changed(
        "a kubeconfig with an exec plugin",
        user(json!({"exec": {"command": "aws"}})),
    );
    said.changed(
        "a kubeconfig with a password",
        user(json!({"username": "u", "password": "SECRET"})),
    );
    said.changed(
        "a token file that isn't there",
        user(json!({"tokenFile": "/nowhere/token"})),
    );
    said.changed("a context that isn't there", |config| {
        config["current-context"] = json!("prod");
    });
    said.changed("no authority", cluster("certificate-authority", json!("")));
    said.changed(
        "an authority that isn't there",
        cluster("certificate-authority", json!("/nowhere/ca.crt")),
    );
    said.changed(
        "a server that is no URL",
        cluster("server", json!("10.0.0.1:6443")),
    );
    said.changed(
        "a proxy that isn't http",
        cluster("proxy-url", json!("socks5://10.0.0.1:1")),
    );
    said.add_in(
        "HTTPS_PROXY isn't http",
        &[("HTTPS_PROXY", "ftp://10.0.0.1")],
    );
}

/// Certificates, proxies, URLs.
fn ways_to_the_api_server(said: &mut Said) {
    let other = harness::Authority::new(&said.root().join("other-authority"));
    said.changed(
        "another authority",
        cluster("certificate-authority", json!(other.ca())),
    );
    said.changed(
        "another name than in the certificate",
        cluster("tls-server-name", json!("api.example.com")),
    );
    // Port 9 is closed.
    said.changed(
        "a proxy that is off",
        cluster("proxy-url", json!("http://127.0.0.1:9")),
    );
    said.add_in(
        "HTTPS_PROXY is off",
        &[("HTTPS_PROXY", "http://127.0.0.1:9")],
    );
    said.changed(
        "a port that is closed",
        cluster("server", json!("https://127.0.0.1:9")),
    );
}

/// Users and their rights.
fn credentials(said: &mut Said) {
    said.changed("a token that is wrong", user(json!({"token": "wrong"})));
    said.changed("no token", user(json!({})));
    let api = &said.cluster.api;
    api.kubectl(&["-n", "kube-system", "create", "serviceaccount", "nobody"]);
    let without_rights = api.kubeconfig_of_account("kube-system", "nobody");
    let of_no_node = api.kubeconfig_of_account("kube-system", "ipam-delegated");
    let of_another = api.kubeconfig_of_node("n2");
    said.add_with("a user without rights", &without_rights);
    said.add_with("a token of no node", &of_no_node);
    said.add_with("a token of another node", &of_another);
}

/// Answers of a server in front of the API server, or of the API server itself.
fn answers(said: &mut Said) {
    let proxy = ApiProxy::start(&said.cluster.api);
    let node = said.cluster.api.kubeconfig_of_node("n1");
    let proxied = proxy.kubeconfig_like(&said.cluster.api, &node);
    said.hide(proxy.url().trim_start_matches("https://"), "PROXY");
    let status = |message: &str| json!({"kind": "Status", "message": message}).to_string();
    let refused = |code, body: String| Fate::Refused(code, Vec::new(), body);
    for (what, fate) in [
        ("no answer", Fate::AnswerHeld),
        (
            "429",
            refused(429, status("too many requests, please try again later")),
        ),
        (
            "500",
            refused(500, status("etcdserver: mvcc: database space exceeded")),
        ),
        (
            "502 of a load balancer",
            refused(502, "<html><body>Bad Gateway</body></html>".to_owned()),
        ),
        (
            "a server that isn't Kubernetes'",
            refused(200, "hello".to_owned()),
        ),
    ] {
        proxy.decide(move |_| fate.clone());
        said.add_with(what, &proxied);
    }
}

/// Pools and addresses.
fn pools(said: &mut Said) {
    let mut asking = |what: &str, pool: Value| {
        let mut config = said.config("lan");
        config["ipam"]["pools"] = json!([pool]);
        said.add(what, &config);
    };
    let requested = |ip: &str| json!({"name": "lan", "requested-ip": ip});
    asking("a pool that isn't defined", json!({"name": "wan"}));
    asking("a requested address that is taken", requested("10.40.0.10"));
    asking("a requested address of no range", requested("10.99.0.1"));
    asking(
        "a requested address that is the gateway",
        requested("10.40.0.1"),
    );
    asking("a pool that is given in blocks", json!({"name": "blocks"}));
    let tiny = said.config("tiny");
    said.call("ADD", "holder", &tiny).result();
    said.add("a pool that is full", &tiny);
    said.status("a pool that is full, by STATUS", &tiny);
}

/// Blocks of a pool.
fn blocks(said: &mut Said) {
    let lan = said.config_of_blocks("n1", "lan");
    said.add("a pool without blocks", &lan);
    let undefined = said.config_of_blocks("n1", "wan");
    said.add("blocks of a pool that isn't defined", &undefined);
    let other = said.config_of_blocks("n2", "one-block");
    said.call("ADD", "holder", &other).result();
    let one = said.config_of_blocks("n1", "one-block");
    said.add("a pool without a block left", &one);
}

/// Marks of a restore, missing kinds, and an unreachable API server.
fn the_cluster(said: &mut Said) {
    let config = said.config("lan");
    let begun = said.cluster.administer(&["reconcile", "--begin", "n2"]);
    assert!(begun.status.success(), "{begun:?}");
    said.add("a restore", &config);
    let api = &said.cluster.api;
    api.kubectl(&["delete", "restores.ipam-delegated.io", "--all"]);
    api.kubectl(&["delete", "crd", "addresses.ipam-delegated.io"]);
    said.add("kinds that aren't there", &config);
    said.cluster.api.stop_api_server();
    let mut impatient = config;
    impatient["ipam"]["kubernetes"]["timeout"] = json!("1s");
    said.add("the API server is away", &impatient);
    said.status("the API server is away, by STATUS", &impatient);
    said.gc("the API server is away, by GC", &impatient);
}
