//! Serves one connection: one call, and its answer.
//!
//! A peer has ten seconds for the head of its request, and ten for the body, of 1 MiB at most. The call
//! runs in another thread, since it waits for files and processes. Its answer is told whether Docker
//! has got it: false if the connection has failed meanwhile, or before the whole answer was written.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::http::answer::Answer;
use crate::http::refusal::Refusal;
use crate::threads::lock;

/// The largest body, in bytes.
const LARGEST: usize = 1 << 20;

/// The longest that a request may take to come in.
const PATIENCE: Duration = Duration::from_secs(10);

/// The media type that Docker asks for.
const MEDIA_TYPE: HeaderValue =
    HeaderValue::from_static("application/vnd.docker.plugins.v1.2+json");

/// Answers a call, by its path and its body. It may wait for files and processes.
pub(crate) type Calls = dyn Fn(&str, &str) -> Result<Answer, Refusal> + Send + Sync;

/// Serves a connection. A refused peer gets the reason.
pub(crate) async fn serve<T>(calls: Arc<Calls>, socket: T, refused: Option<Refusal>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let answered = Mutex::new(None);
    let service = service_fn(|request| async {
        let answer = match &refused {
            Some(refusal) => Err(refusal.clone()),
            None => answer(Arc::clone(&calls), request).await,
        };
        let response = response(&answer);
        *lock(&answered) = answer.ok();
        Ok::<_, Infallible>(response)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        // A peer may close its sending side, and still reads the answer.
        .half_close(true)
        // A connection that is kept could be closed just when Docker calls again.
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service)
        .await;
    if let Err(error) = &served {
        tracing::debug!(%error, "the connection has failed");
    }
    let answered = lock(&answered).take();
    if let Some(answer) = answered {
        // `served` is `Ok` only if the whole answer was written to the peer's socket.
        let _ = spawn_blocking(move || answer.end(served.is_ok())).await;
    }
}

fn response(answer: &Result<Answer, Refusal>) -> Response<Full<Bytes>> {
    let (status, body) = match answer {
        Ok(answer) => (200, answer.body.clone()),
        // Docker reads `Err` of a network driver's answers (`drivers/remote/api`), and `Error` of an
        // IPAM driver's (`ipams/remote/api`), whatever its documentation says.
        Err(Refusal { status, why }) => (*status, json!({"Err": why, "Error": why}).to_string()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response
}

async fn answer(calls: Arc<Calls>, request: Request<Incoming>) -> Result<Answer, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::new(405, "a call is a POST"));
    }
    let path = request.uri().path().to_owned();
    let body = body(request.into_body()).await?;
    let (send, sent) = oneshot::channel();
    spawn_blocking(move || {
        let answer = calls(&path, &body);
        match &answer {
            Ok(answer) => tracing::debug!(call.path = path, call.body = body, answer = answer.body),
            // Docker tries calls that a driver need not have.
            Err(refusal) if refusal.status == 404 => tracing::debug!(path, "not answered"),
            Err(refusal) => {
                tracing::warn!(call.path = path, call.body = body, refusal = refusal.why);
            }
        }
        if let Err(Ok(answer)) = send.send(answer) {
            // The connection has failed meanwhile.
            answer.end(false);
        }
    });
    sent.await.unwrap_or_else(|_| {
        tracing::error!("a call has failed");
        Err(Refusal::new(200, "the daemon has failed; see its log"))
    })
}

async fn body(body: Incoming) -> Result<String, Refusal> {
    let too_large = || Refusal::new(413, "the request is larger than 1 MiB");
    // The value of `Content-Length`, if it is there.
    if body.size_hint().lower() > LARGEST as u64 {
        return Err(too_large());
    }
    let limited = Limited::new(body, LARGEST).collect();
    let collected = timeout(PATIENCE, limited)
        .await
        .map_err(|_| Refusal::new(408, "the request did not come in time"))?;
    let bytes = collected.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => too_large(),
        None => Refusal::new(400, error.to_string()),
    })?;
    let text = String::from_utf8(bytes.to_bytes().into());
    text.map_err(|error| Refusal::new(400, error.to_string()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// The answer to a peer that sends these bytes, and then nothing; and the time after which
    /// it comes.
    async fn sent(bytes: &[u8]) -> (String, Duration) {
        let calls: Arc<Calls> = Arc::new(|_: &str, _: &str| Ok(Answer::nothing()));
        let (mut peer, socket) = duplex(1 << 16);
        let serving = tokio::spawn(serve(calls, socket, None));
        let started = tokio::time::Instant::now();
        peer.write_all(bytes).await.unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        serving.await.unwrap();
        (answer, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_is_refused() {
        let head =
            b"POST /IpamDriver.RequestPool HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{";
        let (answer, after) = sent(head).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(
            answer.contains("the request did not come in time"),
            "{answer}"
        );
        assert!((PATIENCE..PATIENCE * 2).contains(&after), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stops_within_the_head_is_left() {
        for head in [&b"POST /Plugin.Act"[..], b""] {
            let (answer, after) = sent(head).await;
            assert!(!answer.contains("200"), "{answer}");
            assert!((PATIENCE..PATIENCE * 2).contains(&after), "{after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_call_is_answered() {
        let (answer, after) =
            sent(b"POST /Plugin.Activate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(after < PATIENCE);
    }

    #[tokio::test]
    async fn an_answer_is_delivered_only_to_a_peer_that_is_there() {
        for is_there in [true, false] {
            let (deliver, delivered) = std::sync::mpsc::channel();
            let (go_on, may_go_on) = std::sync::mpsc::channel();
            let may_go_on = Mutex::new(may_go_on);
            let calls: Arc<Calls> = Arc::new(move |_: &str, _: &str| {
                lock(&may_go_on).recv().unwrap();
                let deliver = deliver.clone();
                Ok(Answer::nothing().then(move |is_delivered| deliver.send(is_delivered).unwrap()))
            });
            let (mut peer, socket) = tokio::net::UnixStream::pair().unwrap();
            let serving = tokio::spawn(serve(calls, socket, None));
            let call = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
            peer.write_all(call).await.unwrap();
            let peer = is_there.then_some(peer);
            go_on.send(()).unwrap();
            serving.await.unwrap();
            assert_eq!(delivered.recv(), Ok(is_there));
            drop(peer);
        }
    }
}
