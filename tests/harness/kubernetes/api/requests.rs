//! Requests to the API server. kubectl takes a quarter of a second for each.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use super::KubernetesApi;
use crate::kubernetes::control_plane::{ADMINISTRATOR, ControlPlane};

/// Path of our API group.
const GROUP: &str = "/apis/ipam-delegated.io/v1";

/// An answer of the API server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The JSON of the body, or else its text.
    pub body: Value,
}

impl Answer {
    /// True if the request was executed.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl KubernetesApi {
    /// Sends a request with a user's token, from any network namespace. The body of a `PATCH` is a
    /// JSON merge patch.
    ///
    /// # Errors
    ///
    /// The API server can't be reached, or doesn't answer.
    pub fn request_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> io::Result<Answer> {
        let config = client_config(self);
        let content = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let kind = match method {
            "PATCH" => "merge-patch+json",
            _ => "json",
        };
        // HTTP/1.0 has no chunks: the body ends with the connection.
        let message = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json\r\nContent-Type: application/{kind}\r\n\
             Content-Length: {}\r\n\r\n{content}",
            Self::ADDRESS,
            content.len()
        );
        let namespace = self.namespace();
        let exchange = move || {
            namespace.enter();
            exchange(config, message.as_bytes())
        };
        let answer = thread::scope(|scope| scope.spawn(exchange).join().unwrap())?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok(Answer {
            status: status.ok_or_else(|| io::Error::other(format!("no answer: {text}")))?,
            body: serde_json::from_str(body).unwrap_or_else(|_| body.into()),
        })
    }

    /// Sends a request as the administrator, from any network namespace.
    ///
    /// # Panics
    ///
    /// If the API server can't be reached.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: &Value) -> Answer {
        let answer = self.request_as(ADMINISTRATOR, method, path, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// As [`Self::request`]; returns the body of a successful answer.
    ///
    /// # Panics
    ///
    /// If the request is refused.
    #[track_caller]
    pub fn succeed(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.request(method, path, body);
        assert!(answer.is_success(), "{method} {path} {body}: {answer:?}");
        answer.body
    }

    /// The objects of a resource of our API group.
    ///
    /// # Panics
    ///
    /// If they can't be listed.
    #[track_caller]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let mut list = self.succeed("GET", &format!("{GROUP}/{resource}"), &Value::Null);
        match list["items"].take() {
            Value::Array(objects) => objects,
            other => panic!("{resource}: {other}"),
        }
    }

    /// Creates an object of our API group, or merges its spec into the existing one.
    ///
    /// # Panics
    ///
    /// If the API server refuses it.
    #[track_caller]
    pub fn put(&self, resource: &str, object: &Value) {
        let path = format!("{GROUP}/{resource}");
        let created = self.request("POST", &path, object);
        if created.status == 409 {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            self.succeed("PATCH", &path, object);
        } else {
            assert!(created.is_success(), "{object}: {created:?}");
        }
    }

    /// A token of a service account, bound to a pod if there is one.
    ///
    /// # Panics
    ///
    /// If the API server refuses it.
    pub(super) fn token(&self, namespace: &str, account: &str, pod: Option<&Value>) -> String {
        let mut request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        if let Some(pod) = pod {
            let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
            request["spec"]["boundObjectRef"] =
                json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        }
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.succeed("POST", &path, &request);
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

fn exchange(config: Arc<ClientConfig>, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect(config)?;
    stream.write_all(message)?;
    read_to_end(&mut stream)
}

/// A connection to the API server from its network namespace.
pub(super) fn connect(
    config: Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(ControlPlane::HOST).unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let stream = TcpStream::connect(ControlPlane::API)?;
    Ok(StreamOwned::new(connection, stream))
}

/// The whole answer on a connection that ends with it.
pub(super) fn read_to_end(
    stream: &mut StreamOwned<ClientConnection, TcpStream>,
) -> io::Result<Vec<u8>> {
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // The connection was closed without TLS's close_notify.
        Err(_) if !answer.is_empty() => Ok(answer),
        read => read.map(|_| answer),
    }
}

pub(super) fn client_config(api: &KubernetesApi) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(api.ca()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
