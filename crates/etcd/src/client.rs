//! The client: sends each request to one endpoint after the other, until one answers or the
//! time is up.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::Cancellation;
use prost::Message;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, ClientTlsConfig};

use crate::connection::{self, Attempt, in_words};
use crate::error::{Error, Kind};
use crate::executor::Executor;
use crate::files;
use crate::messages::{
    AuthenticateRequest, AuthenticateResponse, DeleteRequest, DeleteResponse, KeyValue,
    MemberStatus, PutRequest, PutResponse, RangeRequest, RangeResponse, StatusRequest, TxnRequest,
    TxnResponse,
};
use crate::request::{Range, RangeAnswer, Txn, TxnAnswer, after_prefix};
use crate::session::Session;
use crate::settings::{Login, Settings};

/// Wait after all endpoints have failed; it doubles, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Tokens that are asked for during one request: one may expire while it is on its way.
const MOST_TOKENS: u32 = 3;

/// A client for one call of a plugin. All of its requests together take no longer than
/// `ipam.etcd.timeout`.
pub struct Client<'a> {
    settings: &'a Settings,
    cancellation: Option<&'a dyn Cancellation>,
    tls: Option<ClientTlsConfig>,
    executor: Executor,
    /// A connection for each endpoint.
    connections: Vec<Option<Channel>>,
    /// Index of the endpoint that is asked first.
    current: usize,
    session: Session,
    started: Instant,
    deadline: Instant,
    requests: u32,
}

/// The state of one request over all of its attempts.
struct Progress {
    /// What was the matter with each endpoint last.
    reasons: Vec<Option<String>>,
    /// True for endpoints that can't be trusted, or don't trust.
    distrusted: Vec<bool>,
    /// True if an attempt may have been executed.
    is_lost: bool,
    sent: u32,
    tokens: u32,
}

impl<'a> Client<'a> {
    /// A client. It reads the certificates, and connects with the first request.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`] for a file that can't be used.
    pub fn new(
        settings: &'a Settings,
        cancellation: Option<&'a dyn Cancellation>,
    ) -> Result<Self, Error> {
        let session = Session::open(settings);
        let endpoints = &settings.endpoints;
        let answered = |url: &str| endpoints.iter().position(|it| it.url() == url);
        let started = Instant::now();
        Ok(Self {
            tls: connection::tls(settings)?,
            executor: Executor::new()?,
            connections: vec![None; endpoints.len()],
            current: answered(&session.remembered.endpoint)
                .unwrap_or_else(|| fastrand::usize(..endpoints.len())),
            session,
            started,
            deadline: started + settings.timeout,
            requests: 0,
            settings,
            cancellation,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Time that is left for requests.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Ends requests earlier, so that this share of `timeout` (0 to 1) is kept for undoing
    /// them. With 0, all of the time may be used again.
    pub fn keep_in_reserve(&mut self, share: f64) {
        self.deadline = self.started + self.settings.timeout.mul_f64(1.0 - share.clamp(0.0, 1.0));
    }

    /// From now on, cancellations are ignored: what was begun is brought to an end.
    pub fn ignore_cancellation(&mut self) {
        self.cancellation = None;
    }

    /// Number of requests that were sent, for tests and figures.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Reads one key.
    ///
    /// # Errors
    ///
    /// See [`Kind`].
    pub fn get(&mut self, key: impl Into<Vec<u8>>) -> Result<Option<KeyValue>, Error> {
        Ok(self.range(&Range::key(key))?.kvs.pop())
    }

    /// Reads keys. What was written before is seen, whatever endpoint answers.
    ///
    /// # Errors
    ///
    /// See [`Kind`].
    pub fn range(&mut self, range: &Range) -> Result<RangeAnswer, Error> {
        let (response, _) =
            self.call::<RangeRequest, RangeResponse>("/etcdserverpb.KV/Range", &range.0, false)?;
        Ok(response.into())
    }

    /// Reads all keys that start with this, in pages of `page`, and hands each page to `f`. A
    /// page shows the keys as they are when it is read.
    ///
    /// # Errors
    ///
    /// See [`Kind`], and those of `f`.
    pub fn pages<E: From<Error>>(
        &mut self,
        prefix: &str,
        page: u32,
        keys_only: bool,
        mut f: impl FnMut(&mut Self, Vec<KeyValue>) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = after_prefix(prefix.as_bytes());
        let mut first = prefix.as_bytes().to_vec();
        loop {
            let mut range = Range::between(first.clone(), end.clone()).limit(page);
            if keys_only {
                range = range.keys_only();
            }
            let answer = self.range(&range)?;
            let more = answer.more;
            if let Some(last) = answer.kvs.last() {
                first.clone_from(&last.key);
                first.push(0);
            }
            f(self, answer.kvs)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes one key.
    ///
    /// # Errors
    ///
    /// See [`Kind`].
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        let (key, value) = (key.into(), value.into());
        let request = PutRequest { key, value };
        self.call::<_, PutResponse>("/etcdserverpb.KV/Put", &request, true)?;
        Ok(())
    }

    /// Removes the keys that start with this; returns their number.
    ///
    /// # Errors
    ///
    /// See [`Kind`].
    pub fn delete_prefix(&mut self, prefix: impl Into<Vec<u8>>) -> Result<u64, Error> {
        let key = prefix.into();
        let range_end = after_prefix(&key);
        let request = DeleteRequest { key, range_end };
        let (response, _) =
            self.call::<_, DeleteResponse>("/etcdserverpb.KV/DeleteRange", &request, true)?;
        Ok(u64::try_from(response.deleted).unwrap_or_default())
    }

    /// Executes a transaction. If an answer is lost, it is sent again: it must be written so
    /// that its else-branch shows that it has been applied already
    /// ([`TxnAnswer::resent`]).
    ///
    /// # Errors
    ///
    /// See [`Kind`]. With [`Kind::Lost`] and [`Kind::Cancelled`], it may have been applied.
    pub fn txn(&mut self, txn: &Txn) -> Result<TxnAnswer, Error> {
        let changes = !txn.only_reads();
        let (response, resent) = self.call::<TxnRequest, TxnResponse>(
            "/etcdserverpb.KV/Txn",
            &txn.to_request(),
            changes,
        )?;
        Ok(TxnAnswer::new(response, resent))
    }

    /// The state of the member that answers.
    ///
    /// # Errors
    ///
    /// See [`Kind`].
    pub fn status(&mut self) -> Result<MemberStatus, Error> {
        let (response, _) =
            self.call("/etcdserverpb.Maintenance/Status", &StatusRequest {}, false)?;
        Ok(response)
    }

    /// Sends a request until there is an answer; true with it if an earlier attempt may have
    /// been executed.
    fn call<Q, A>(
        &mut self,
        path: &'static str,
        request: &Q,
        changes: bool,
    ) -> Result<(A, bool), Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let endpoints = self.connections.len();
        let mut progress = Progress {
            reasons: vec![None; endpoints],
            distrusted: vec![false; endpoints],
            is_lost: false,
            sent: 0,
            tokens: 0,
        };
        let mut wait = FIRST_WAIT;
        loop {
            for tried in 0..endpoints {
                let left = self.remaining();
                if left.is_zero() {
                    return Err(self.time_is_up(&progress, changes));
                }
                let share = left / u32::try_from(endpoints - tried).unwrap_or(u32::MAX);
                let attempt = self.attempt(path, request, share, &mut progress);
                let attempt = attempt.map_err(|error| {
                    // An earlier attempt may have been executed all the same.
                    let is_lost = progress.is_lost && changes && error.kind != Kind::Cancelled;
                    Error {
                        kind: if is_lost { Kind::Lost } else { error.kind },
                        ..error
                    }
                });
                if let Some(answer) = attempt? {
                    let url = self.settings.endpoints[self.current].url();
                    self.session.remember(|it| url.clone_into(&mut it.endpoint));
                    return Ok((answer, progress.is_lost));
                }
                self.current = (self.current + 1) % endpoints;
            }
            if progress.distrusted.iter().all(|it| *it) {
                let msg = format!(
                    "no endpoint of etcd can be used: {}",
                    self.reasons(&progress)
                );
                let kind = if progress.is_lost && changes {
                    Kind::Lost
                } else {
                    Kind::Refused
                };
                return Err(Error::new(kind, msg));
            }
            if self.cancellation.is_some_and(Cancellation::is_cancelled) {
                let msg = "the call was cancelled while it waited for etcd";
                return Err(Error::new(Kind::Cancelled, msg));
            }
            sleep(
                wait.mul_f64(0.5 + fastrand::f64() / 2.0)
                    .min(self.remaining()),
            );
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Sends a request to the current endpoint; `None` if the next one has to be asked.
    fn attempt<Q, A>(
        &mut self,
        path: &'static str,
        request: &Q,
        within: Duration,
        progress: &mut Progress,
    ) -> Result<Option<A>, Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let started = Instant::now();
        loop {
            let token = self.token(within)?;
            let left = within.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            progress.sent += 1;
            let attempt = self.exchange(path, request.clone(), token.as_ref(), left);
            let at = self.current;
            let url = self.settings.endpoints[at].url();
            progress.distrusted[at] = matches!(attempt, Attempt::Distrusted(_));
            match attempt {
                Attempt::Answer(answer) => return Ok(Some(answer)),
                Attempt::Final(error) => return Err(error),
                Attempt::Token(reason) => {
                    progress.tokens += 1;
                    if self.settings.login.is_none() || progress.tokens > MOST_TOKENS {
                        return Err(Error::new(Kind::Refused, reason));
                    }
                    tracing::debug!(url, reason, "asking for another token");
                    self.renew_token(left)?;
                }
                Attempt::NotSent(reason) | Attempt::Distrusted(reason) => {
                    tracing::debug!(url, reason, "this endpoint can't be used now");
                    progress.reasons[at] = Some(reason);
                    self.connections[at] = None;
                    return Ok(None);
                }
                Attempt::Lost(reason) => {
                    tracing::debug!(url, reason, "no answer");
                    progress.is_lost = true;
                    progress.reasons[at] = Some(reason);
                    self.connections[at] = None;
                    return Ok(None);
                }
            }
        }
    }

    /// Connects to the current endpoint, if there is no connection, and sends.
    fn exchange<Q, A>(
        &mut self,
        path: &'static str,
        request: Q,
        token: Option<&AsciiMetadataValue>,
        within: Duration,
    ) -> Attempt<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let endpoint = &self.settings.endpoints[self.current];
        let started = Instant::now();
        let connection = &mut self.connections[self.current];
        let channel = match connection {
            Some(channel) => channel,
            None => {
                let connecting = connection::connect(endpoint, self.tls.as_ref(), within);
                match self.executor.run(connecting) {
                    Ok(channel) => connection.insert(channel),
                    Err(Attempt::Distrusted(reason)) => return Attempt::Distrusted(reason),
                    Err(Attempt::Final(error)) => return Attempt::Final(error),
                    Err(
                        Attempt::NotSent(reason) | Attempt::Lost(reason) | Attempt::Token(reason),
                    ) => {
                        return Attempt::NotSent(reason);
                    }
                    Err(Attempt::Answer(channel)) => connection.insert(channel),
                }
            }
        };
        let left = within.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Attempt::NotSent(format!("no connection within {}", in_words(within)));
        }
        self.requests += 1;
        let sending = connection::send(channel, path, request, token, left, self.cancellation);
        self.executor.run(sending)
    }

    /// The token to send, if there is a user.
    fn token(&mut self, within: Duration) -> Result<Option<AsciiMetadataValue>, Error> {
        if self.settings.login.is_none() {
            return Ok(None);
        }
        if self.session.remembered.token.is_none() {
            self.renew_token(within)?;
        }
        let token = self.session.remembered.token.as_deref();
        // etcd without authentication has none to give.
        Ok(token
            .filter(|it| !it.is_empty())
            .and_then(|it| it.parse().ok()))
    }

    fn renew_token(&mut self, within: Duration) -> Result<(), Error> {
        let Some(login) = &self.settings.login else {
            return Ok(());
        };
        let expired = self.session.remembered.token.take();
        // Taken out, as it is locked while the client is used.
        let mut session = std::mem::take(&mut self.session);
        let renewed = session.alone(within, |session| {
            let other = session.remembered.token.as_ref();
            if other.is_none_or(|it| Some(it) == expired.as_ref()) {
                let token = self.authenticate(login, within)?;
                session.set_token(token);
            }
            Ok(())
        });
        self.session = session;
        renewed
    }

    /// Asks the current endpoint for a token; an empty one if etcd needs none, none if it
    /// can't be asked.
    fn authenticate(&mut self, login: &Login, within: Duration) -> Result<Option<String>, Error> {
        let path = &login.password_file;
        let password = files::read("passwordFile", path)?;
        let password = String::from_utf8(password)
            .map_err(|error| files::refused("passwordFile", path, &error.utf8_error()))?;
        let request = AuthenticateRequest {
            name: login.username.clone(),
            password: password.trim_end().to_owned(),
        };
        let path = "/etcdserverpb.Auth/Authenticate";
        match self.exchange::<_, AuthenticateResponse>(path, request, None, within) {
            Attempt::Answer(answer) => Ok(Some(answer.token)),
            Attempt::Final(error) if error.msg.contains("authentication is not enabled") => {
                Ok(Some(String::new()))
            }
            Attempt::Final(error) => Err(error),
            // The request itself finds out the same.
            _ => Ok(None),
        }
    }

    fn time_is_up(&self, progress: &Progress, changes: bool) -> Error {
        let reasons = self.reasons(progress);
        let within = in_words(self.settings.timeout);
        if progress.is_lost && changes {
            let msg = format!(
                "no answer from etcd within {within}, so the change may have been made: {reasons}"
            );
            Error::new(Kind::Lost, msg)
        } else {
            let msg = format!("etcd can't be reached within {within}: {reasons}");
            Error::new(Kind::Unreachable, msg)
        }
    }

    /// What was the matter with each endpoint.
    fn reasons(&self, progress: &Progress) -> String {
        let endpoints = self.settings.endpoints.iter().zip(&progress.reasons);
        let reasons: Vec<String> = endpoints
            .map(|(endpoint, reason)| {
                format!(
                    "{endpoint}: {}",
                    reason.as_deref().unwrap_or("not asked in time")
                )
            })
            .collect();
        reasons.join("; ")
    }
}
