//! One HTTP call over a unix socket, as a client.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::runtime;
use tokio::time::timeout;

/// The longest that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer: a network of Docker's with 60,000 containers has 20 MB.
const LARGEST: usize = 256 << 20;

/// Calls, and returns the JSON of the answer.
///
/// # Errors
///
/// Nobody answers on the socket; the answer is an error, or no JSON.
pub(crate) fn call(socket: &Path, method: Method, path: &str, body: String) -> Result<Value> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(async {
        let call = timeout(PATIENCE, answer(socket, method, path, body));
        call.await.context("no answer in 30 seconds")?
    });
    answer.with_context(|| format!("{}: {path}", socket.display()))
}

async fn answer(socket: &Path, method: Method, path: &str, body: String) -> Result<Value> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the runtime.
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .body(Full::new(Bytes::from(body)))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST).collect();
    let body = body
        .await
        .map_err(|error| anyhow::anyhow!(error))?
        .to_bytes();
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body).trim());
    }
    Ok(serde_json::from_slice(&body)?)
}
