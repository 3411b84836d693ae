//! The way to the API server through a proxy.

use cluster::Kind;
use cni::Environment;
use kubernetes::Client;
use serde_json::json;

use super::fake_server::{FakeServer, Reply};
use super::setting::{Setting, pool};
use super::{POOL, to};

#[test]
fn requests_go_through_the_proxy_of_the_kubeconfig() {
    let proxy = FakeServer::start([Reply::object(200, &pool("blue", 1))]);
    let url = format!("http://user:secret@{}", proxy.address);
    let cluster = json!({"server": "http://api.invalid:6443/base", "proxy-url": url});
    let setting = Setting::new(&cluster, &json!({}));
    let mut client = Client::new(&setting.settings, None);
    assert!(client.get(POOL, "blue").unwrap().is_some());
    let received = proxy.received();
    assert_eq!(received[0].line, "CONNECT api.invalid:6443 HTTP/1.1");
    let login = received[0].header("proxy-authorization");
    assert_eq!(login, "Basic dXNlcjpzZWNyZXQ=");
    let line = "GET /base/apis/ipam-delegated.io/v1/pools/blue HTTP/1.1";
    assert_eq!(received[1].line, line);
}

#[test]
fn requests_go_through_the_proxy_of_the_call() {
    let proxy = FakeServer::start([Reply::object(200, &pool("blue", 1))]);
    let environment = Environment::default().with("http_proxy", proxy.url());
    let setting = Setting::new(&json!({"server": "http://api.invalid:80"}), &json!({})).impatient();
    let mut client = Client::new(&setting.settings, None).with_environment(&environment);
    assert!(client.get(POOL, "blue").unwrap().is_some());
    assert_eq!(proxy.received().len(), 2);
    let environment = environment.with("NO_PROXY", ".invalid");
    let mut client = Client::new(&setting.settings, None).with_environment(&environment);
    let error = client.get(POOL, "blue").unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
    assert_eq!(proxy.received().len(), 2);
    let environment = Environment::default().with("HTTP_PROXY", "socks5://u:SECRET@a:1");
    let mut client = Client::new(&setting.settings, None).with_environment(&environment);
    let error = client.get(POOL, "blue").unwrap_err();
    assert_eq!(error.kind, Kind::Settings, "{error}");
    assert!(error.msg.starts_with("HTTP_PROXY: it must be"), "{error}");
    // The proxy isn't used for this server.
    let environment = environment.with("NO_PROXY", ".invalid");
    let mut client = Client::new(&setting.settings, None).with_environment(&environment);
    let error = client.get(POOL, "blue").unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
}

#[test]
fn a_server_on_this_machine_is_reached_without_the_proxy_of_the_call() {
    let server = FakeServer::start([Reply::object(200, &pool("blue", 1))]);
    let environment = Environment::default().with("HTTP_PROXY", "http://proxy.invalid:1");
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None).with_environment(&environment);
    assert!(client.get(POOL, "blue").unwrap().is_some());
}

#[test]
fn no_part_of_a_proxys_user_information_is_shown() {
    for login in ["user:SECRET", "SECRET@SECRET:SECRET@SECRET", "SECRET"] {
        let url = format!("http://{login}@127.0.0.1:1");
        let environment = Environment::default().with("HTTP_PROXY", &url);
        let server = json!({"server": "http://api.invalid"});
        let setting = Setting::new(&server, &json!({})).impatient();
        let mut client = Client::new(&setting.settings, None).with_environment(&environment);
        let error = client.get(POOL, "blue").unwrap_err();
        assert!(!error.msg.contains("SECRET"), "{error}");
        let proxy = "proxy http://127.0.0.1:1/ (HTTP_PROXY)";
        assert!(error.msg.contains(proxy), "{error}");
    }
}

/// True if a request to this server goes past the proxy.
fn is_excepted(server: &str, exceptions: &str) -> bool {
    let proxy = FakeServer::start([Reply::object(200, &pool("blue", 1))]);
    let environment = Environment::default()
        .with("HTTP_PROXY", proxy.url())
        .with("NO_PROXY", exceptions);
    let setting = Setting::new(&json!({"server": server}), &json!({})).impatient();
    let mut client = Client::new(&setting.settings, None).with_environment(&environment);
    let _ = client.get(POOL, "blue");
    proxy.received().is_empty()
}

#[test]
fn the_documented_exceptions_from_the_proxy_have_effect_and_other_forms_have_none() {
    let name = "http://api.example.invalid";
    let [v4, v6] = ["http://10.1.2.3", "http://[fd00::1]"];
    for (server, exceptions, expected) in [
        (name, "a.invalid, example.invalid", true),
        (name, ".example.invalid", true),
        (name, "api.example.invalid", true),
        (name, "*", true),
        (v4, "10.1.2.3", true),
        (v4, "10.0.0.0/8", true),
        (v4, "0.0.0.0/0,::/0", true),
        (v6, "fd00::1", true),
        (v6, "fd00::/8", true),
        (v6, "0.0.0.0/0,::/0", true),
        (name, "*.example.invalid", false),
        (v4, "*", false),
        (v4, "10.1.2.3:80", false),
        (v6, "*", false),
        (v6, "[fd00::1]", false),
    ] {
        let is_excepted = is_excepted(server, exceptions);
        assert_eq!(is_excepted, expected, "{server} {exceptions}");
    }
}
