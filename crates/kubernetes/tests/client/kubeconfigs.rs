//! Kubeconfigs: supported keys, and refused keys.

use cluster::Kind;
use kubernetes::Client;
use serde_json::{Value, json};

use crate::POOL;
use crate::fake_server::{FakeServer, Reply};
use crate::setting::{Setting, pool};

/// The error for a kubeconfig, from the key's name on.
fn refusal(setting: &Setting) -> String {
    let mut client = Client::new(&setting.settings, None);
    let error = client.get(POOL, "blue").unwrap_err();
    assert_eq!(error.kind, Kind::Settings, "{error}");
    assert!(!error.msg.contains("SECRET"), "{error}");
    let path = setting.settings.kubeconfig.display();
    let start = format!("ipam.kubernetes.kubeconfig: {path}: ");
    let key = error.msg.strip_prefix(&start);
    key.unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[test]
fn a_token_file_is_read_for_each_request() {
    let blue = pool("blue", 1);
    let replies = [(); 3].map(|()| Reply::object(200, &blue));
    let server = FakeServer::start(replies);
    let user = json!({"tokenFile": "token", "token": "from the kubeconfig"});
    let setting = Setting::new(&json!({"server": server.url()}), &user);
    let mut client = Client::new(&setting.settings, None);
    client.get(POOL, "blue").unwrap();
    for token in ["first\n", "second"] {
        setting.write("token", token);
        client.get(POOL, "blue").unwrap();
    }
    let received = server.received();
    let tokens: Vec<&str> = received
        .iter()
        .map(|request| request.header("authorization"))
        .collect();
    let expected = [
        "Bearer from the kubeconfig",
        "Bearer first",
        "Bearer second",
    ];
    assert_eq!(tokens, expected);
}

#[test]
fn a_kubeconfig_is_yaml_too() {
    let server = FakeServer::start([Reply::object(200, &pool("blue", 1))]);
    let url = server.url();
    let setting = Setting::with(&format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: c\n\
         contexts:\n- name: c\n  context:\n    cluster: k\n    namespace: x\n\
         clusters:\n- name: k\n  cluster:\n    server: {url}/\nusers: null\n"
    ));
    let mut client = Client::new(&setting.settings, None);
    assert!(client.get(POOL, "blue").unwrap().is_some());
    assert_eq!(server.received()[0].header("authorization"), "");
}

#[test]
fn keys_of_a_user_that_are_not_supported_are_refused_by_name() {
    let cluster = json!({"server": "http://a"});
    for (user, start) in [
        (
            json!({"exec": {"command": "SECRET"}}),
            "exec: no command is executed",
        ),
        (
            json!({"auth-provider": {"name": "SECRET"}}),
            "auth-provider: no command",
        ),
        (
            json!({"username": "SECRET"}),
            "username: the API server knows no passwords",
        ),
        (
            json!({"password": "SECRET"}),
            "password: the API server knows no passwords",
        ),
        (
            json!({"as": "SECRET"}),
            "as: requests are made as the user itself",
        ),
        (
            json!({"client-certificate-data": "SECRET!"}),
            "client-certificate-data: it is no base64",
        ),
        (
            json!({"client-key-data": "U0VDUkVU"}),
            "client-key-data: it is no PEM",
        ),
    ] {
        let refusal = refusal(&Setting::new(&cluster, &user));
        let start = format!("users[0].user.{start}");
        assert!(refusal.starts_with(&start), "{refusal}");
    }
    let setting = Setting::new(&cluster, &json!({"tokenFile": "none"}));
    let none = setting.folder.path().join("none");
    let expected = format!(
        "tokenFile: {}: No such file or directory (os error 2)",
        none.display()
    );
    assert_eq!(refusal(&setting), expected);
    setting.write("none", "\n");
    let expected = format!("tokenFile: {}: it is empty", none.display());
    assert_eq!(refusal(&setting), expected);
}

#[test]
fn keys_of_a_cluster_that_are_wrong_are_refused_by_name() {
    let ca = "certificate-authority";
    for (cluster, start) in [
        (json!({}), "server: it is missing"),
        (
            json!({"server": "a:6443"}),
            "server: it is no http or https URL",
        ),
        (
            json!({"server": "ftp://a"}),
            "server: it is no http or https URL",
        ),
        (
            json!({"server": "https://u:SECRET@a"}),
            "server: it holds a user",
        ),
        (
            json!({"server": "https://a"}),
            "certificate-authority: it is missing",
        ),
        (
            json!({"server": "https://a", ca: "none"}),
            "certificate-authority: ",
        ),
        (
            json!({"server": "https://a", ca: "kubeconfig"}),
            "certificate-authority: it is no PEM",
        ),
    ] {
        let refusal = refusal(&Setting::new(&cluster, &json!({})));
        let start = format!("clusters[0].cluster.{start}");
        assert!(refusal.starts_with(&start), "{refusal}");
    }
    let both = json!({"server": "https://a", ca: "ca.pem", "insecure-skip-tls-verify": true});
    let setting = Setting::new(&both, &json!({}));
    setting.write("ca.pem", "-----BEGIN CERTIFICATE-----");
    let start = "clusters[0].cluster.insecure-skip-tls-verify: certificate-authority is set";
    assert!(refusal(&setting).starts_with(start));
    for url in ["https://u:SECRET@a", "socks5://SECRET", "SECRET\n"] {
        let cluster = json!({"server": "http://a", "proxy-url": url});
        let refusal = refusal(&Setting::new(&cluster, &json!({})));
        assert!(
            refusal.starts_with("proxy-url: it must be an http URL"),
            "{refusal}"
        );
    }
}

#[test]
fn a_file_that_is_no_kubeconfig_is_refused() {
    let none = json!({"clusters": [], "contexts": [{"name": "c", "context": {"cluster": "k"}}]});
    let with = |key: &str, value: Value| {
        let mut changed = none.clone();
        changed[key] = value;
        changed.to_string()
    };
    for (text, start) in [
        (String::new(), "current-context is missing"),
        ("SECRET".to_owned(), "it is no kubeconfig"),
        ("\t- SECRET: [".to_owned(), "it is no kubeconfig, line 1"),
        ("[SECRET]: x".to_owned(), "it is no kubeconfig, line 1"),
        ("{{SECRET}}".to_owned(), "it is no kubeconfig, line 1"),
        (
            "clusters:\n- [SECRET]: x".to_owned(),
            "clusters[0]: it is no kubeconfig, line 2",
        ),
        (
            with("clusters", json!([{"name": "k", "cluster": "SECRET"}])),
            "clusters[0].cluster: it is no kubeconfig, line 1",
        ),
        (none.to_string(), "current-context is missing"),
        (
            with("current-context", json!("d")),
            "current-context: contexts has no \"d\"",
        ),
        (
            with("current-context", json!("c")),
            "clusters: there is no \"k\"",
        ),
    ] {
        let refusal = refusal(&Setting::with(&text));
        assert!(refusal.starts_with(start), "{text}: {refusal}");
    }
}
