//! Answers that no API server gives to the request: nothing is concluded from them.

use cluster::Kind;
use kubernetes::{Client, Created, Deleted};
use serde_json::{Value, json};

use crate::fake_server::{FakeServer, Reply};
use crate::setting::pool;
use crate::{POOL, to};

fn page(kind: &str, items: &Value, token: &str) -> Reply {
    let metadata = json!({"resourceVersion": "42", "continue": token});
    let mut list = json!({"kind": kind, "metadata": metadata, "items": items});
    if items.is_null() {
        list.as_object_mut().unwrap().remove("items");
    }
    Reply::object(200, &list)
}

fn html(status: u16) -> Reply {
    Reply::Answer(status, "", b"<html>Not here</html>".to_vec())
}

/// An answer that ends with the connection.
fn raw(head: &str, body: &str) -> Reply {
    Reply::Raw(format!("{head}\r\n\r\n{body}").into_bytes())
}

#[test]
fn what_is_no_list_of_the_resource_is_no_empty_list() {
    let nothing = json!([]);
    let metadata = json!({"name": "blue", "uid": "u", "resourceVersion": "7"});
    let without_spec = json!([{"metadata": metadata}]);
    for reply in [
        page("PoolList", &Value::Null, ""),
        page("PodList", &nothing, ""),
        page("List", &nothing, ""),
        page("PartialObjectMetadataList", &nothing, ""),
        page("PoolList", &without_spec, ""),
        Reply::object(200, &pool("blue", 7)),
        Reply::object(200, &json!({"kind": "Status", "status": "Success"})),
        Reply::object(404, &json!({"kind": "PoolList", "items": []})),
        Reply::status(404, "NotFound", ""),
        html(200),
        html(404),
        html(302),
        Reply::Answer(200, "", Vec::new()),
        Reply::Answer(204, "", Vec::new()),
        Reply::Answer(200, "Content-Encoding: gzip\r\n", vec![0x1f, 0x8b, 8, 0]),
        raw(
            "HTTP/1.0 200 OK",
            r#"{"kind":"PoolList","metadata":{"resourceVersion":"42"},"ite"#,
        ),
    ] {
        let server = FakeServer::start([reply]);
        let setting = to(&server);
        let mut client = Client::new(&setting.settings, None);
        let error = client.list(POOL, Some("x=y"), false).unwrap_err();
        assert_eq!(error.kind, Kind::Unable, "{error}");
    }
}

#[test]
fn what_is_not_the_object_is_neither_the_object_nor_a_proof_that_it_is_missing() {
    let mut other_kind = pool("blue", 7);
    other_kind["kind"] = json!("Pod");
    let mut without_spec = pool("blue", 7);
    without_spec.as_object_mut().unwrap().remove("spec");
    for reply in [
        Reply::object(200, &other_kind),
        Reply::object(200, &without_spec),
        Reply::object(200, &pool("red", 7)),
        Reply::object(404, &json!({"kind": "Status", "reason": "NotFound"})),
        Reply::status(404, "NotFound", "red"),
        Reply::status(410, "Gone", "blue"),
        Reply::Answer(200, "", b"[]".to_vec()),
        Reply::Endless,
        html(200),
        html(404),
        html(307),
        html(410),
    ] {
        let server = FakeServer::start([reply]);
        let setting = to(&server);
        let mut client = Client::new(&setting.settings, None);
        let error = client.get(POOL, "blue").unwrap_err();
        assert_eq!(error.kind, Kind::Unable, "{error}");
    }
}

#[test]
fn a_deletion_is_done_or_unnecessary_only_if_the_api_server_says_so() {
    let gzip = "Content-Encoding: gzip\r\n";
    for (reply, kind) in [
        (html(200), Kind::Lost),
        (Reply::Answer(200, "", Vec::new()), Kind::Lost),
        (Reply::Answer(200, gzip, vec![0x1f, 0x8b, 8, 0]), Kind::Lost),
        (Reply::object(200, &pool("red", 7)), Kind::Lost),
        (
            raw("HTTP/1.0 200 OK", r#"{"kind":"Status","sta"#),
            Kind::Lost,
        ),
        (
            raw(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                "11\r\n{\"kind\":\"Status\",\r\n",
            ),
            Kind::Lost,
        ),
        (html(502), Kind::Lost),
        (html(404), Kind::Unable),
        (html(409), Kind::Unable),
        (html(410), Kind::Unable),
        (html(301), Kind::Unable),
        (Reply::status(404, "NotFound", ""), Kind::Unable),
        (Reply::status(410, "Gone", "blue"), Kind::Unable),
        (Reply::status(422, "Invalid", "blue"), Kind::Unable),
    ] {
        let server = FakeServer::start([reply]);
        let setting = to(&server);
        let mut client = Client::new(&setting.settings, None);
        let error = client.delete(POOL, "blue", Some("u"), None).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert_eq!(server.received().len(), 1);
    }
}

#[test]
fn an_object_that_its_finalizers_keep_is_not_deleted() {
    let mut kept = pool("blue", 8);
    kept["metadata"]["deletionTimestamp"] = json!("2026-11-22T13:00:00Z");
    kept["metadata"]["finalizers"] = json!(["example.org/audit"]);
    let server = FakeServer::start([Reply::object(200, &kept)]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let error = client.delete(POOL, "blue", Some("u"), None).unwrap_err();
    assert_eq!(error.kind, Kind::Unable, "{error}");
    assert!(error.msg.contains("example.org/audit"), "{error}");
}

#[test]
fn a_list_whose_pages_lead_back_to_themselves_ends() {
    let server = FakeServer::start((1..9).map(|_| page("PoolList", &json!([]), "same")));
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let error = client.list(POOL, None, false).unwrap_err();
    assert_eq!(error.kind, Kind::Unable, "{error}");
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_wait_of_any_length_is_understood() {
    for (header, kind) in [
        ("Retry-After: 4294967295\r\n", Kind::Unreachable),
        ("Retry-After: 18446744073709551615\r\n", Kind::Lost),
        ("Retry-After: -1\r\n", Kind::Lost),
        ("Retry-After: Wed, 21 Oct 2037 07:28:00 GMT\r\n", Kind::Lost),
    ] {
        let server = FakeServer::start([Reply::Answer(503, header, Vec::new())]);
        let setting = to(&server);
        let mut client = Client::new(&setting.settings, None);
        let error = client.create(POOL, &pool("blue", 0), false).unwrap_err();
        assert_eq!(error.kind, kind, "{header}: {error}");
    }
}

#[test]
fn an_answer_in_the_old_version_of_http_is_read_and_its_connection_not_used_again() {
    let object = pool("blue", 7).to_string();
    let success = r#"{"kind":"Status","status":"Success"}"#;
    let server = FakeServer::start([
        raw("HTTP/1.0 201 Created", &object),
        raw("HTTP/1.0 200 OK", success),
    ]);
    let setting = to(&server);
    let mut client = Client::new(&setting.settings, None);
    let created = client.create(POOL, &pool("blue", 0), false);
    assert!(matches!(created, Ok(Created::Done(_))), "{created:?}");
    let deleted = client.delete(POOL, "blue", Some("u"), None);
    assert_eq!(deleted, Ok(Deleted::Done));
    assert_eq!(server.connections(), 2);
}
