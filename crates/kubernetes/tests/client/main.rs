//! Tests the client against a server that sends scripted replies.

mod fake_server;
mod kubeconfigs;
mod proxies;
mod setting;
mod strange_answers;
mod tls;

use std::io;
use std::net::TcpListener;
use std::os::fd::BorrowedFd;

use cluster::Kind;
use cni::Cancellation;
use kubernetes::{Client, Created, Deleted, Replaced, Resource};
use serde_json::json;

use fake_server::{FakeServer, Reply};
use setting::{Setting, pool};

const POOL: Resource = Resource::Pool;

fn to(server: &FakeServer) -> Setting {
    Setting::new(&json!({"server": server.url()}), &json!({"token": "t"}))
}

#[test]
fn an_object_is_read_over_one_connection() {
    let server = FakeServer::start([
        Reply::object(200, &pool("blue", 7)),
        Reply::status(404, "NotFound", "red"),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let item = client.get(POOL, "blue").unwrap().unwrap();
    assert_eq!((item.name.as_str(), item.revision), ("blue", 7));
    assert_eq!(item.spec, json!({"ranges": []}));
    assert_eq!(item.labels["ipam-delegated.io/pool"], "blue");
    assert_eq!(client.get(POOL, "red"), Ok(None));
    assert_eq!(server.connections(), 1);
    let request = &server.received()[0];
    let line = "GET /apis/ipam-delegated.io/v1/pools/blue HTTP/1.1";
    assert_eq!(request.line, line);
    assert_eq!(request.header("authorization"), "Bearer t");
    assert_eq!(request.header("host"), server.address.to_string());
}

#[test]
fn a_missing_resource_is_not_taken_for_a_missing_object() {
    let server = FakeServer::start([
        Reply::Answer(404, "", b"404 page not found\n".to_vec()),
        Reply::status(404, "NotFound", ""),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    for _ in 0..2 {
        let error = client.get(POOL, "blue").unwrap_err();
        assert_eq!(error.kind, Kind::Unable, "{error}");
        let hint = "; if its kinds are missing: kubectl apply -k docs/kubernetes-cluster-pool";
        assert!(error.msg.ends_with(hint), "{error}");
    }
}

#[test]
fn both_kinds_of_409_are_told_apart() {
    let server = FakeServer::start([
        Reply::status(409, "AlreadyExists", "blue"),
        Reply::status(409, "Conflict", "blue"),
        Reply::status(409, "Conflict", "blue"),
        Reply::status(409, "Conflict", "blue"),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let blue = pool("blue", 7);
    assert_eq!(client.create(POOL, &blue, false), Ok(Created::Exists));
    assert_eq!(client.replace(POOL, &blue, false), Ok(Replaced::Changed));
    let deleted = client.delete(POOL, "blue", Some("u"), Some(7));
    assert_eq!(deleted, Ok(Deleted::Changed));
    let error = client.create(POOL, &blue, false).unwrap_err();
    assert_eq!(error.kind, Kind::Unable, "{error}");
}

#[test]
fn writes_have_the_right_method_path_and_body() {
    let done = json!({"kind": "Status", "status": "Success"});
    let server = FakeServer::start([
        Reply::object(201, &pool("blue", 8)),
        Reply::object(200, &pool("blue", 9)),
        Reply::object(200, &pool("blue", 10)),
        Reply::object(200, &done),
        Reply::status(404, "NotFound", "blue"),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let blue = pool("blue", 7);
    let Ok(Created::Done(item)) = client.create(POOL, &blue, true) else {
        panic!("not created");
    };
    assert_eq!(item.revision, 8);
    let replaced = client.replace(POOL, &blue, false);
    assert!(matches!(replaced, Ok(Replaced::Done(_))), "{replaced:?}");
    let replaced = client.replace_status(POOL, &blue);
    assert!(matches!(replaced, Ok(Replaced::Done(_))), "{replaced:?}");
    let deleted = client.delete(POOL, "blue", Some("u"), None);
    assert_eq!(deleted, Ok(Deleted::Done));
    let deleted = client.delete(POOL, "blue", Some("u"), None);
    assert_eq!(deleted, Ok(Deleted::Missing));
    let received = server.received();
    let lines: Vec<&str> = received
        .iter()
        .map(|request| request.line.as_str())
        .collect();
    let expected = [
        "POST /apis/ipam-delegated.io/v1/pools?fieldManager=ipamctl-import&dryRun=All HTTP/1.1",
        "PUT /apis/ipam-delegated.io/v1/pools/blue?fieldManager=ipamctl-import HTTP/1.1",
        "PUT /apis/ipam-delegated.io/v1/pools/blue/status?fieldManager=ipamctl-import HTTP/1.1",
        "DELETE /apis/ipam-delegated.io/v1/pools/blue?fieldManager=ipamctl-import HTTP/1.1",
        "DELETE /apis/ipam-delegated.io/v1/pools/blue?fieldManager=ipamctl-import HTTP/1.1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(received[0].body, blue);
    assert_eq!(received[3].body["preconditions"], json!({"uid": "u"}));
}

#[test]
fn a_request_is_sent_again_after_a_429_or_503() {
    let retry = "Retry-After: 0\r\n";
    let server = FakeServer::start([
        Reply::Answer(429, retry, Vec::new()),
        Reply::Answer(429, "", Vec::new()),
        Reply::Answer(503, retry, Vec::new()),
        Reply::object(201, &pool("blue", 1)),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let created = client.create(POOL, &pool("blue", 0), false);
    assert!(matches!(created, Ok(Created::Done(_))), "{created:?}");
    assert_eq!(server.received().len(), 4);
}

#[test]
fn a_wait_that_is_longer_than_the_time_limit_ends_the_request() {
    let server = FakeServer::start([Reply::Answer(429, "Retry-After: 21\r\n", Vec::new())]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
    assert!(error.msg.contains("within 20s: 429"), "{error}");
}

#[test]
fn a_write_that_is_lost_after_a_refusal_says_both() {
    let refused = Reply::Answer(429, "Retry-After: 0\r\n", b"slow down".to_vec());
    let server = FakeServer::start([refused, Reply::Close]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
    assert_eq!(error.kind, Kind::Lost, "{error}");
    assert!(
        error.msg.ends_with("; before that: 429: slow down"),
        "{error}"
    );
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_write_without_a_usable_answer_is_lost_and_sent_once() {
    let garbage = b"<html>".to_vec();
    for reply in [
        Reply::status(500, "InternalError", "blue"),
        Reply::status(504, "Timeout", "blue"),
        Reply::Answer(503, "", Vec::new()),
        Reply::Answer(201, "", garbage.clone()),
        Reply::object(201, &pool("red", 1)),
        Reply::Endless,
        Reply::Close,
    ] {
        let server = FakeServer::start([reply]);
        let setting = to(&server);
        let mut client = Client::new(&setting.settings, None);
        let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
        assert_eq!(error.kind, Kind::Lost, "{error}");
        assert_eq!(server.received().len(), 1);
    }
    let server = FakeServer::start([Reply::Answer(200, "", garbage)]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let error = client.delete(POOL, "blue", Some("u"), None).unwrap_err();
    assert_eq!(error.kind, Kind::Lost, "{error}");
}

#[test]
fn a_read_without_a_usable_answer_is_repeated() {
    let server = FakeServer::start([
        Reply::status(500, "InternalError", "blue"),
        Reply::Close,
        Reply::Answer(502, "", b"<html>".to_vec()),
        Reply::object(200, &pool("blue", 1)),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    assert!(client.get(POOL, "blue").unwrap().is_some());
    assert_eq!(server.received().len(), 4);
}

#[test]
fn a_dry_run_is_never_lost() {
    let server = FakeServer::start([Reply::Close, Reply::object(201, &pool("blue", 1))]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let created = client.create(POOL, &pool("blue", 0), true);
    assert!(matches!(created, Ok(Created::Done(_))), "{created:?}");
}

#[test]
fn a_refused_connection_leaves_nothing_sent() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let setting = Setting::new(&json!({"server": url}), &json!({})).impatient();
    let mut client = Client::new(&setting.settings, None);
    let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
    assert!(error.msg.contains("Connection refused"), "{error}");
}

#[test]
fn refusals_say_what_to_do() {
    let missing = "User \"n1\" cannot create resource \"pools\"";
    let right = "; the user of PATH needs the right to create pools.ipam-delegated.io, see docs/kubernetes-cluster-pool/rights-of-nodes.yaml";
    let expired = "; the credentials in PATH are wrong or have expired; on a node, the pod of the DaemonSet ipam-delegated renews them";
    let anonymous = "User \"system:anonymous\" cannot create resource \"pools\"";
    let nobody = "; the user in PATH has no tokenFile, token or client-certificate";
    for (code, message, kind, hint) in [
        (401, "Unauthorized", Kind::Refused, expired),
        (403, missing, Kind::Refused, right),
        (403, anonymous, Kind::Refused, nobody),
        (403, "not your node", Kind::Refused, ""),
        (422, "spec.ranges: wrong", Kind::Unable, ""),
    ] {
        let status = json!({"kind": "Status", "status": "Failure", "message": message});
        let server = FakeServer::start([Reply::object(code, &status)]);
        let setting = to(&server);
        let mut client = Client::new(&setting.settings, None);
        let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        let path = setting.settings.kubeconfig.display().to_string();
        let expected = format!(
            "Kubernetes' API refuses to create pools.ipam-delegated.io blue: {code}: {message}{}",
            hint.replace("PATH", &path)
        );
        assert_eq!(error.msg, expected);
    }
}

#[test]
fn a_list_is_read_by_pages_and_starts_again_when_they_expire() {
    let page = |items: &[_], token: &str| {
        let metadata = json!({"resourceVersion": "42", "continue": token});
        Reply::object(
            200,
            &json!({"kind": "PoolList", "metadata": metadata, "items": items}),
        )
    };
    let empty = json!({"kind": "PoolList", "metadata": {"resourceVersion": "43"}, "items": null});
    let (a, b) = (pool("a", 1), pool("b", 2));
    let server = FakeServer::start([
        page(std::slice::from_ref(&a), "next"),
        Reply::status(410, "Expired", ""),
        page(&[a], "other"),
        page(&[b], ""),
        Reply::object(200, &empty),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let list = client.list(POOL, Some("x=y"), true).unwrap();
    let names: Vec<&str> = list.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!((names, list.revision), (vec!["a", "b"], 42));
    let list = client.list(POOL, None, true).unwrap();
    assert_eq!((list.items, list.revision), (Vec::new(), 43));
    let received = server.received();
    let path = "/apis/ipam-delegated.io/v1/pools?limit=1000&labelSelector=x%3Dy";
    assert_eq!(received[2].line, format!("GET {path} HTTP/1.1"));
    assert_eq!(
        received[3].line,
        format!("GET {path}&continue=other HTTP/1.1")
    );
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    assert_eq!(received[0].header("accept"), accept);
}

/// A call that was cancelled before it began.
struct Cancelled;

impl Cancellation for Cancelled {
    fn is_cancelled(&self) -> bool {
        true
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Err(io::Error::other("there is none"))
    }
}

#[test]
fn a_cancelled_call_waits_for_nothing() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let setting = Setting::new(&json!({"server": url}), &json!({}));
    let mut client = Client::new(&setting.settings, Some(&Cancelled));
    let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
    assert_eq!(error.kind, Kind::Cancelled, "{error}");
}
