//! One request to one endpoint: connects, sends, and says whether the request was executed.

use std::error::Error as _;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use cluster::client::{is_client_refused, is_distrust, reason};
use cluster::{EngineError, Kind};
use cni::Cancellation;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{error::Elapsed, timeout};
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::messages::Answer;
use crate::{Endpoint, Settings, settings_file};

/// Largest answer. A page of keys with their values stays far below it.
const LARGEST_ANSWER: usize = 64 << 20;

/// Interval in which a cancellation is noticed.
const CANCELLATION_INTERVAL: Duration = Duration::from_millis(20);

/// Outcome of one request.
#[derive(Debug)]
pub(crate) enum Attempt<A> {
    /// The answer.
    Answer(A),
    /// The endpoint can't be used now; the request has not been executed, and will not be.
    NotSent(String),
    /// The client doesn't trust the server's certificate, or the server the client's. The request
    /// has not been executed.
    Distrusted(String),
    /// There is no answer: the request may have been executed.
    Lost(String),
    /// The token is missing or has expired; the request has not been executed.
    Token(String),
    /// Every endpoint would answer the same.
    Final(EngineError),
}

/// The TLS of all endpoints.
///
/// # Errors
///
/// A file can't be read.
pub(crate) fn tls(settings: &Settings) -> Result<Option<ClientTlsConfig>, EngineError> {
    let Some(ca) = &settings.ca else {
        return Ok(None);
    };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem("ca", ca)?));
    if let Some((cert, key)) = &settings.identity {
        tls = tls.identity(Identity::from_pem(pem("cert", cert)?, pem("key", key)?));
    }
    Ok(Some(tls))
}

/// A file with at least one PEM section.
fn pem(key: &str, path: &Path) -> Result<Vec<u8>, EngineError> {
    let content = settings_file::read(key, path)?;
    // rustls accepts a file without a section, as an empty list of authorities.
    if !content.windows(11).any(|part| part == b"-----BEGIN ") {
        return Err(settings_file::refused(key, path, &"it is no PEM file"));
    }
    Ok(content)
}

/// Connects. The error is the outcome of a request that could not be sent.
pub(crate) async fn connect<A>(
    endpoint: &Endpoint,
    tls: Option<&ClientTlsConfig>,
    within: Duration,
) -> Result<Channel, Attempt<A>> {
    let mut built = Channel::from_shared(endpoint.url().to_owned())
        .map_err(|error| Attempt::NotSent(error.to_string()))?
        .connect_timeout(within);
    if let Some(tls) = tls.filter(|_| endpoint.is_tls()) {
        let tls = tls.clone().domain_name(endpoint.host());
        built = built.tls_config(tls).map_err(|error| {
            let msg = format!("{endpoint}: {}", reason(&error));
            Attempt::Final(EngineError::new(Kind::Settings, msg))
        })?;
    }
    match timeout(within, built.connect()).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => {
            let reason = reason(&error);
            Err(match is_distrust(&reason) {
                true => Attempt::Distrusted(reason),
                false => Attempt::NotSent(reason),
            })
        }
        Err(Elapsed { .. }) => Err(not_connected(within)),
    }
}

/// The outcome of a request for which there was no connection in time.
pub(crate) fn not_connected<A>(within: Duration) -> Attempt<A> {
    Attempt::NotSent(format!("no connection within {}", in_words(within)))
}

/// Sends a request over a connection.
pub(crate) async fn send<Q, A>(
    channel: &Channel,
    path: &'static str,
    request: Q,
    token: Option<&AsciiMetadataValue>,
    within: Duration,
    cancellation: Option<&dyn Cancellation>,
) -> Attempt<A>
where
    Q: Message + 'static,
    A: Answer,
{
    let mut request = Request::new(request);
    request.set_timeout(within);
    let metadata = request.metadata_mut();
    // A member without a leader then refuses immediately.
    metadata.insert("hasleader", AsciiMetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token.clone());
    }
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
    let exchange = async {
        if let Err(error) = grpc.ready().await {
            return Attempt::NotSent(reason(&error));
        }
        let path = PathAndQuery::from_static(path);
        match grpc
            .unary(request, path, ProstCodec::<Q, A>::default())
            .await
        {
            Ok(response) if response.get_ref().header().is_some() => {
                Attempt::Answer(response.into_inner())
            }
            Ok(_) => Attempt::Lost("its answer has no header, so it isn't etcd".to_owned()),
            Err(status) => of_status(&status),
        }
    };
    let mut exchange = pin!(exchange);
    let mut left = within;
    loop {
        let slice = cancellation.map_or(left, |_| left.min(CANCELLATION_INTERVAL));
        if let Ok(attempt) = timeout(slice, exchange.as_mut()).await {
            return attempt;
        }
        if cancellation.is_some_and(Cancellation::is_cancelled) {
            return Attempt::Final(cancelled());
        }
        left = left.saturating_sub(slice);
        if left.is_zero() {
            return Attempt::Lost(format!("no answer within {}", in_words(within)));
        }
    }
}

/// The meaning of a failure's status. The texts are of etcd's `rpctypes/error.go`.
fn of_status<A>(status: &Status) -> Attempt<A> {
    let said = status.message().trim_start_matches("etcdserver: ");
    let is = |text: &str| said.contains(text);
    let refused = |msg: String| Attempt::Final(EngineError::new(Kind::Refused, msg));
    match status.code() {
        Code::Unauthenticated => Attempt::Token(format!("etcd refuses: {said}")),
        Code::InvalidArgument if is("revision of auth store is old") => {
            Attempt::Token(format!("etcd refuses: {said}"))
        }
        // Authentication may have been enabled after the token was requested.
        Code::InvalidArgument if is("user name is empty") => Attempt::Token(
            "etcd asks for a user: set ipam.etcd.username and ipam.etcd.passwordFile, or a client certificate with the user's name".to_owned(),
        ),
        Code::InvalidArgument if is("authentication failed") => {
            refused("etcd refuses ipam.etcd.username with the password in ipam.etcd.passwordFile".to_owned())
        }
        Code::PermissionDenied => refused(format!("etcd refuses: {said}")),
        Code::ResourceExhausted if is("too many requests") => Attempt::NotSent(said.to_owned()),
        Code::ResourceExhausted => {
            Attempt::Final(EngineError::new(Kind::Unable, format!("etcd refuses to write: {said}")))
        }
        Code::InvalidArgument if is("too many operations") || is("request is too large") => {
            Attempt::Final(EngineError::new(
                Kind::Unable,
                format!("etcd takes less in one transaction (--max-txn-ops, 128 unless set; --max-request-bytes): {said}"),
            ))
        }
        Code::Unavailable if is("no leader") => Attempt::NotSent(said.to_owned()),
        // The server at this endpoint isn't etcd.
        Code::Unimplemented => Attempt::NotSent(said.to_owned()),
        Code::OutOfRange if is("message length too large") => Attempt::Lost(said.to_owned()),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::Internal
        | Code::Unknown => {
            let reason = match status.source() {
                Some(source) => reason(source),
                None => said.to_owned(),
            };
            if is_client_refused(&reason) {
                Attempt::Distrusted(reason)
            } else {
                Attempt::Lost(reason)
            }
        }
        code => Attempt::Final(EngineError::new(Kind::Unable, format!("etcd refuses ({code:?}): {said}"))),
    }
}

/// The failure of a call that was cancelled.
pub(crate) fn cancelled() -> EngineError {
    let msg = "the call was cancelled while it waited for etcd";
    EngineError::new(Kind::Cancelled, msg)
}

/// A time, in whole milliseconds.
pub(crate) fn in_words(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
    ))
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(code: Code, said: &str) -> Attempt<()> {
        of_status(&Status::new(code, said))
    }

    #[test]
    fn a_failure_says_whether_etcd_may_have_executed_the_request() {
        for (code, said) in [
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unimplemented, "grpc-status header missing, 404"),
        ] {
            assert!(matches!(attempt(code, said), Attempt::NotSent(_)), "{said}");
        }
        for (code, said) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "transport is closing"),
            (Code::Unknown, "h2 protocol error"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "Timeout expired"),
            (Code::OutOfRange, "Error, decoded message length too large"),
        ] {
            assert!(matches!(attempt(code, said), Attempt::Lost(_)), "{said}");
        }
    }

    #[test]
    fn a_token_is_renewed_and_a_refusal_is_final() {
        for (code, said) in [
            (Code::Unauthenticated, "etcdserver: invalid auth token"),
            (
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty"),
        ] {
            assert!(matches!(attempt(code, said), Attempt::Token(_)), "{said}");
        }
        for (code, said, kind) in [
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Kind::Refused,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Kind::Unable,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                Kind::Unable,
            ),
        ] {
            let Attempt::Final(error) = attempt(code, said) else {
                panic!("{said}");
            };
            assert_eq!(error.kind, kind, "{said}");
        }
    }
}
