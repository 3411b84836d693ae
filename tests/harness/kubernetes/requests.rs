//! Requests to the API server. kubectl takes a quarter of a second for each.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use super::control_plane::{ADMINISTRATOR, ControlPlane};
use crate::Namespace;
use crate::waiting::{PATIENCE, wait_within};

/// An answer of the API server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status code, such as 404.
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

impl ControlPlane {
    /// Sends a request with a user's token, from any network namespace. The body of a `PATCH` is a
    /// JSON merge patch.
    ///
    /// # Errors
    ///
    /// The API server can't be reached, or doesn't answer.
    pub(super) fn request_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> io::Result<Answer> {
        let config = client_config(&self.ca())?;
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
            Self::API,
            content.len()
        );
        let namespace = Namespace::of(self.node());
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

    /// Sends a request as the administrator. Like kubectl, sends it again if the API server asks for
    /// that, as it does after a start.
    pub(super) fn request(&self, method: &str, path: &str, body: &Value) -> io::Result<Answer> {
        let mut answer = self.request_as(ADMINISTRATOR, method, path, body);
        wait_within(PATIENCE, || {
            let asks_again = answer.as_ref().is_ok_and(|answer| answer.status == 429);
            if asks_again {
                answer = self.request_as(ADMINISTRATOR, method, path, body);
            }
            !asks_again
        });
        answer
    }

    /// The object at this path as it is now; `None` if it can't be read.
    pub(super) fn get(&self, path: &str) -> Option<Value> {
        let answer = self.request("GET", path, &Value::Null).ok()?;
        answer.is_success().then_some(answer.body)
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

/// The client's side of TLS, with the certificates of this file as authorities.
pub(super) fn client_config(authorities: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authorities).map_err(io::Error::other)? {
        roots.add(certificate.map_err(io::Error::other)?).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
