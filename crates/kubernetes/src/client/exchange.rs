//! One request: sent until it is answered, the time is up, or it is unknown whether it was
//! executed.

use std::time::Duration;

use bytes::Bytes;
use cluster::{EngineError, Kind};
use cni::Cancellation;
use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::Full;

use super::answer::{Answer, Verdict};
use super::connection::{Connection, Failure, Route};
use super::failures::{cancelled, distrusted, lost, unreadable};
use super::patience::{GivenUp, wait_for};
use super::request::Request;
use super::{Client, proxy, tls};
use crate::kubeconfig::{Kubeconfig, refused};
use cluster::client::Executor;

/// First wait after a failure. It doubles each time, up to the longest wait.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// A client that has sent a request.
pub(super) struct Started {
    pub(super) kubeconfig: Kubeconfig,
    route: Route,
    connection: Option<Connection>,
    executor: Executor,
}

/// Outcome of one attempt.
enum Attempt {
    Answer(Answer),
    Failure(Failure),
    Cancelled,
}

impl Client<'_> {
    /// The parts that requests need.
    pub(super) fn start(&mut self) -> Result<&mut Started, EngineError> {
        if self.started.is_none() {
            let kubeconfig = Kubeconfig::read(&self.settings.kubeconfig)?;
            let route = Route {
                server: kubeconfig.server.clone(),
                tls: tls::tls(&kubeconfig)?,
                proxy: proxy::proxy(&kubeconfig, self.environment)?,
            };
            self.started = Some(Started {
                kubeconfig,
                route,
                connection: None,
                executor: Executor::new()?,
            });
        }
        Ok(self.started.as_mut().expect("it was started just now"))
    }

    /// Sends a request until an answer says whether it was executed.
    pub(super) fn call(&mut self, request: &Request) -> Result<(Answer, Verdict), EngineError> {
        self.time.start_request();
        let server = self.start()?.route.server.to_string();
        let mut wait = FIRST_WAIT;
        let mut last_reason: Option<String> = None;
        loop {
            if self.time.remaining().is_zero() {
                let reason = last_reason.as_deref();
                return Err(self.time_is_up(reason.unwrap_or("it was not asked in time")));
            }
            let mut after = None;
            let reason = match self.attempt(request)? {
                Attempt::Cancelled => return Err(cancelled()),
                Attempt::Failure(Failure::Distrusted(reason)) => {
                    return Err(distrusted(self.settings, &server, &reason));
                }
                Attempt::Failure(Failure::TooLong) => {
                    return Err(unreadable(request, "it is too long"));
                }
                Attempt::Failure(Failure::Lost(mut reason)) if request.changes => {
                    if let Some(earlier) = last_reason {
                        reason = format!("{reason}; before that: {earlier}");
                    }
                    return Err(lost(request, &reason));
                }
                Attempt::Failure(Failure::Lost(reason) | Failure::NotSent(reason)) => reason,
                Attempt::Answer(answer) => match answer.verdict(request) {
                    Verdict::Unknown if request.changes => {
                        return Err(lost(request, &answer.said()));
                    }
                    Verdict::Unknown => answer.said(),
                    Verdict::Later => {
                        after = answer.retry_after;
                        answer.said()
                    }
                    verdict => {
                        self.date = answer.date;
                        return Ok((answer, verdict));
                    }
                },
            };
            tracing::debug!(server, reason, "no usable answer of the API server");
            let pause = after.unwrap_or(wait).mul_f64(1.0 + fastrand::f64() / 4.0);
            // An attempt at the last moment would make it unknown whether a change was made.
            if pause + pause.min(LONGEST_WAIT) >= self.time.remaining() {
                return Err(self.time_is_up(&reason));
            }
            last_reason = Some(reason);
            if self.pause(pause)? == Some(GivenUp::Cancelled) {
                return Err(cancelled());
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Connects, if there is no connection, and sends.
    fn attempt(&mut self, request: &Request) -> Result<Attempt, EngineError> {
        let cancellation = self.cancellation.filter(|_| !self.time.is_final());
        let time = self.time;
        let started = self.start()?;
        let message = message(&started.kubeconfig, request)?;
        started.connection = started.connection.take().filter(Connection::is_usable);
        let connection = match &mut started.connection {
            Some(connection) => connection,
            none => {
                let opening = Connection::open(&started.route);
                let opening = wait_for(opening, time.remaining(), cancellation);
                match started.executor.run(opening) {
                    Ok(Ok(opened)) => none.insert(opened),
                    Ok(Err(failure)) => return Ok(Attempt::Failure(failure)),
                    Err(GivenUp::Cancelled) => return Ok(Attempt::Cancelled),
                    Err(GivenUp::TimeIsUp) => {
                        let reason = "no connection in time".to_owned();
                        return Ok(Attempt::Failure(Failure::NotSent(reason)));
                    }
                }
            }
        };
        let sending = wait_for(connection.send(message), time.remaining(), cancellation);
        let sent = started.executor.run(sending);
        if !matches!(sent, Ok(Ok(_))) {
            // A late answer must not be read as the answer to the next request.
            started.connection = None;
        }
        Ok(match sent {
            Ok(Ok(answer)) => Attempt::Answer(answer),
            Ok(Err(failure)) => Attempt::Failure(failure),
            Err(GivenUp::Cancelled) => Attempt::Cancelled,
            Err(GivenUp::TimeIsUp) => {
                Attempt::Failure(Failure::Lost("no answer in time".to_owned()))
            }
        })
    }

    /// Waits before another attempt.
    fn pause(&mut self, pause: Duration) -> Result<Option<GivenUp>, EngineError> {
        let cancellation: Option<&dyn Cancellation> =
            self.cancellation.filter(|_| !self.time.is_final());
        let waiting = wait_for(std::future::pending::<()>(), pause, cancellation);
        Ok(self.start()?.executor.run(waiting).err())
    }

    fn time_is_up(&self, reason: &str) -> EngineError {
        let within = humantime::format_duration(self.time.bound());
        let started = self.started.as_ref();
        let server = started.map_or_else(String::new, |connection| {
            connection.route.server.to_string()
        });
        let msg = format!("Kubernetes' API at {server} can't be used within {within}: {reason}");
        EngineError::new(Kind::Unreachable, msg)
    }
}

/// A request with its headers.
fn message(
    kubeconfig: &Kubeconfig,
    request: &Request,
) -> Result<http::Request<Full<Bytes>>, EngineError> {
    let server = &kubeconfig.server;
    let base = server.path().trim_end_matches('/');
    let authority = server
        .authority()
        .map_or("", |authority| authority.as_str());
    let mut message = http::Request::builder()
        .method(&request.method)
        .uri(format!("{base}{}", request.target))
        .header(HOST, authority)
        .header(
            USER_AGENT,
            concat!("ipam-delegated/", env!("CARGO_PKG_VERSION")),
        )
        .header(ACCEPT, request.accept);
    if let Some(token) = kubeconfig.token()? {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value = value.map_err(|_| {
            refused(
                &kubeconfig.path,
                &"token: it has characters that no token has",
            )
        })?;
        value.set_sensitive(true);
        message = message.header(AUTHORIZATION, value);
    }
    if !request.body.is_empty() {
        message = message.header(CONTENT_TYPE, request.content_type);
    }
    let body = Full::new(Bytes::from(request.body.clone()));
    message.body(body).map_err(|error| {
        let msg = format!("{} can't be asked for: {error}", request.target);
        EngineError::new(Kind::Unable, msg)
    })
}
