//! A connection to the API server. Requests are sent one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::client::{is_client_refused, is_distrust, reason};
use http::header::{DATE, RETRY_AFTER};
use http::uri::Authority;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::answer::Answer;
use super::proxy::Proxy;
use super::tls::Tls;

/// Largest answer. A page of a list stays far below it.
const LARGEST_ANSWER: usize = 64 << 20;

/// Longest pause between two requests on one connection. The API server, or a proxy before it,
/// closes idle connections. A request that is sent at that moment would be lost.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Error text if a proxy answers with another status than 200.
const REFUSED_BY_PROXY: &str = "tunnel error: unsuccessful";

/// Address of the API server, with TLS and proxy.
pub(super) struct Route {
    pub(super) server: Uri,
    /// `None` for an `http` URL.
    pub(super) tls: Option<Tls>,
    pub(super) proxy: Option<Proxy>,
}

/// A connection.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    used: Instant,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The request was not sent.
    NotSent(String),
    /// The client doesn't trust the server's certificate, or the server the client's. The request
    /// was not executed.
    Distrusted(String),
    /// The request was sent, and there is no answer.
    Lost(String),
    /// The answer is longer than the client reads.
    TooLong,
}

impl Connection {
    pub(super) async fn open(route: &Route) -> Result<Self, Failure> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // Without this, the first request waits 40 ms for the acknowledgement of the handshake.
        tcp.set_nodelay(true);
        let server = route.server.clone();
        let connected = match &route.proxy {
            None => tcp.call(server).await.map_err(|error| reason(&error)),
            Some(Proxy { proxy, named_by }) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
                if let Some(login) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(login.clone());
                }
                let connected = tunnel.call(server).await;
                connected.map_err(|error| {
                    let reason = match reason(&error).as_str() {
                        REFUSED_BY_PROXY => "it refuses to connect to the API server".to_owned(),
                        other => other.to_owned(),
                    };
                    format!(
                        "proxy {} ({named_by}): {reason}",
                        without_login(proxy.uri())
                    )
                })
            }
        };
        let tcp = connected.map_err(Failure::NotSent)?;
        let sender = match &route.tls {
            None => start(tcp).await?,
            Some(tls) => {
                let connector = TlsConnector::from(Arc::clone(&tls.config));
                let connecting = connector.connect(tls.server_name.clone(), tcp.into_inner());
                let tls = connecting.await.map_err(|error| {
                    let reason = reason(&error);
                    match is_distrust(&reason) {
                        true => Failure::Distrusted(reason),
                        false => Failure::NotSent(reason),
                    }
                })?;
                start(TokioIo::new(tls)).await?
            }
        };
        Ok(Self {
            sender,
            used: Instant::now(),
        })
    }

    /// True if a request can be sent.
    pub(super) fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.used.elapsed() < LONGEST_PAUSE
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Failure> {
        let ready = self.sender.ready().await;
        ready.map_err(|error| Failure::NotSent(reason(&error)))?;
        let response = self.sender.try_send_request(request).await;
        let response = response.map_err(|mut error| {
            let was_sent = error.take_message().is_none();
            let reason = reason(error.error());
            match (was_sent, is_client_refused(&reason)) {
                (_, true) => Failure::Distrusted(reason),
                (true, false) => Failure::Lost(reason),
                (false, false) => Failure::NotSent(reason),
            }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Failure::TooLong,
            false => Failure::Lost(reason(&*error)),
        })?;
        self.used = Instant::now();
        let retry_after = head.headers.get(RETRY_AFTER);
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        let date = head.headers.get(DATE);
        let date = date.and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok());
        Ok(Answer {
            status: head.status,
            date,
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds.into())),
            body: body.to_bytes().into(),
        })
    }
}

/// A proxy's URL without user and password. A password may contain `@`, so the host follows the last
/// one.
fn without_login(proxy: &Uri) -> String {
    let authority = proxy.authority().map_or("", Authority::as_str);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let scheme = proxy.scheme_str().unwrap_or_default();
    format!("{scheme}://{host}{}", proxy.path())
}

/// Starts HTTP on a connection.
async fn start<T>(io: T) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let started = handshake(io).await;
    let (sender, connection) = started.map_err(|error| Failure::NotSent(reason(&error)))?;
    // If the connection fails, this future ends with an error, and the request fails as well.
    tokio::spawn(connection);
    Ok(sender)
}
