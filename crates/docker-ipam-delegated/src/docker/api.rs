//! One HTTP call over a unix socket, as a client.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

/// The largest answer: a network of Docker's with 60,000 containers has 20 MB.
const LARGEST: usize = 256 << 20;

/// Gets the JSON at a path.
///
/// # Errors
///
/// Nobody answers on the socket; the answer is an error, incomplete, or not such JSON.
pub(crate) async fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T> {
    let answer = answer(socket, path).await;
    answer.with_context(|| format!("{}: {path}", socket.display()))
}

async fn answer<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(HOST, "localhost");
    let request = request.body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| anyhow!(error))?.to_bytes();
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body).trim());
    }
    Ok(serde_json::from_slice(&body)?)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    /// The result of a call to a peer that sends this answer.
    async fn answered(answer: &str) -> Result<Value, String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                request.push(char::from(stream.read_u8().await.unwrap()));
            }
            assert!(
                request.starts_with("GET /networks HTTP/1.1\r\n"),
                "{request}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let (got, ()) = tokio::join!(get(&socket, "/networks"), serve);
        got.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn a_whole_answer_is_read() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n[{\"Id\":\"9a\"}]";
        assert_eq!(answered(answer).await.unwrap()[0]["Id"], "9a");
    }

    #[tokio::test]
    async fn an_error_and_a_part_of_an_answer_are_errors() {
        for (answer, reason) in [
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\n\r\nno such network",
                "404 Not Found: no such network",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n[]",
                "end of file",
            ),
            ("HTTP/1.1 200 OK\r\n\r\n[{\"Id\":", "EOF"),
            ("HTTP/1.1 200 OK\r\n", "connection closed"),
            ("", "connection closed"),
        ] {
            let error = answered(answer).await.unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
