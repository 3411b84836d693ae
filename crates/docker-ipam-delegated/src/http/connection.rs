//! Serves one connection: one call, and its answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::http::answer::Sent;
use crate::http::body;
use crate::http::call::{Call, Calls};
use crate::http::delivery::{AnswerBody, OnItsWay, Watched};
use crate::http::refusal::{Refusal, impossible};

/// The largest body.
const LARGEST: usize = 1 << 20;

/// The longest that a request may take to come in.
const PATIENCE: Duration = Duration::from_secs(10);

/// The media type that Docker asks for.
const MEDIA_TYPE: HeaderValue =
    HeaderValue::from_static("application/vnd.docker.plugins.v1.2+json");

/// What all connections share.
pub(crate) struct Server {
    /// Answers calls.
    pub(crate) calls: Box<dyn Calls>,
    /// Calls of the network driver that may run at once.
    pub(crate) networks_at_once: Arc<Semaphore>,
}

/// Serves a connection. A refused peer gets the reason.
pub(crate) async fn serve<T>(server: Arc<Server>, socket: T, refused: Option<Refusal>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let on_its_way = OnItsWay::default();
    let service = service_fn(|request| {
        let (server, on_its_way, refused) =
            (Arc::clone(&server), on_its_way.clone(), refused.clone());
        async move {
            let answer = match refused {
                Some(refusal) => Err(refusal),
                None => answer(server, request).await,
            };
            Ok::<_, Infallible>(response(answer, &on_its_way))
        }
    });
    let socket = Watched {
        socket,
        on_its_way: on_its_way.clone(),
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        // A peer that has written all it has to say still reads.
        .half_close(true)
        // A connection that is kept could be closed just when Docker calls again.
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "the connection has failed");
    }
}

fn response(answer: Result<Sent, Refusal>, on_its_way: &OnItsWay) -> Response<AnswerBody> {
    let (status, answer) = match answer {
        Ok(answer) => (200, answer),
        Err(refusal) => {
            let body = body::failure(&refusal.to_string()).to_string();
            (refusal.status(), Sent::unwatched(body))
        }
    };
    let mut response = Response::new(on_its_way.body(answer));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response
}

async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Result<Sent, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::NotPosted);
    }
    let path = request.uri().path().to_owned();
    let body = body(request.into_body()).await?;
    let call = Call { path, body };
    if let Some(answer) = server.calls.answer_at_once(&call) {
        tracing::debug!(call.path, call.body, ?answer);
        return answer.map(|answer| Sent::unwatched(answer.body));
    }
    let permit = match call.path.starts_with("/NetworkDriver.") {
        true => Some(Arc::clone(&server.networks_at_once).acquire_owned().await),
        // A pool's chains have permits of its own.
        false => None,
    };
    // Goes on to its end even if the peer goes; then the answer is undone.
    let (send, sent) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let answer = server.calls.answer(&call);
        drop(permit);
        match answer {
            Ok(answer) => {
                tracing::debug!(call.path, call.body, ?answer);
                answer.send(|answer| drop(send.send(Ok(answer))));
            }
            // Docker tries calls that a driver need not have.
            Err(Refusal::UnknownPath(path)) => {
                tracing::debug!(path, "not answered");
                drop(send.send(Err(Refusal::UnknownPath(path))));
            }
            Err(refusal) => {
                tracing::warn!(call.path, call.body, %refusal);
                drop(send.send(Err(refusal)));
            }
        }
    });
    sent.await.unwrap_or_else(|_| {
        tracing::error!("a call has failed");
        Err(impossible("the daemon has failed; see its log"))
    })
}

async fn body(body: Incoming) -> Result<String, Refusal> {
    // What `Content-Length` says, if it is there.
    if body.size_hint().lower() > LARGEST as u64 {
        return Err(Refusal::TooLarge);
    }
    let limited = Limited::new(body, LARGEST).collect();
    let collected = timeout(PATIENCE, limited)
        .await
        .map_err(|_| Refusal::TooSlow)?;
    let bytes = collected.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => Refusal::TooLarge,
        None => Refusal::Undecodable(error.to_string()),
    })?;
    let text = String::from_utf8(bytes.to_bytes().into());
    text.map_err(|error| Refusal::Undecodable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::http::answer::Answer;

    /// Answers each call at once.
    struct AtOnce;

    impl Calls for AtOnce {
        fn answer_at_once(&self, _: &Call) -> Option<Result<Answer, Refusal>> {
            Some(Ok(Answer::plain("{}")))
        }

        fn answer(&self, call: &Call) -> Result<Answer, Refusal> {
            Err(Refusal::UnknownPath(call.path.clone()))
        }
    }

    /// The answer to a peer that sends these bytes, and then nothing; and the time after which
    /// it comes.
    async fn sent(bytes: &[u8]) -> (String, Duration) {
        let server = Arc::new(Server {
            calls: Box::new(AtOnce),
            networks_at_once: Arc::new(Semaphore::new(1)),
        });
        let (mut peer, socket) = duplex(1 << 16);
        let serving = tokio::spawn(serve(server, socket, None));
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
    async fn a_call_that_needs_nothing_is_answered_at_once() {
        let (answer, after) =
            sent(b"POST /Plugin.Activate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(after < PATIENCE);
    }
}
