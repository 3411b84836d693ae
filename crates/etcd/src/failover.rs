//! One request: sent to one endpoint after the other, until one answers or the time is up.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cluster::{EngineError, Kind, TimeLimit};
use cni::Cancellation;
use prost::Message;
use tonic::metadata::AsciiMetadataValue;

use crate::Settings;
use crate::client::Started;
use crate::connection::{self, Attempt, cancelled, in_words};
use crate::messages::Answer;

/// First wait after all endpoints have failed. It doubles each time, up to the longest wait.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Most tokens that are requested during one request: a new token may expire before it is used.
const MOST_TOKENS: u32 = 3;

/// One request, over all of its attempts.
pub(crate) struct Call<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) started: &'a mut Started,
    time: TimeLimit,
    /// `None` while a change must be completed.
    cancellation: Option<&'a dyn Cancellation>,
    /// Reason why each endpoint failed last.
    reasons: Vec<Option<String>>,
    /// True for endpoints whose certificate isn't trusted, or that don't trust the client's.
    distrusted: Vec<bool>,
    changes: bool,
    /// True if an attempt may have made a change.
    is_lost: bool,
    tokens: u32,
}

impl<'a> Call<'a> {
    /// A request that has not been sent. `changes` is false for one that only reads.
    pub(crate) fn new(
        settings: &'a Settings,
        started: &'a mut Started,
        time: TimeLimit,
        cancellation: Option<&'a dyn Cancellation>,
        changes: bool,
    ) -> Self {
        let endpoints = settings.endpoints.len();
        Self {
            settings,
            started,
            time,
            cancellation: cancellation.filter(|_| !time.is_final()),
            reasons: vec![None; endpoints],
            distrusted: vec![false; endpoints],
            changes,
            is_lost: false,
            tokens: 0,
        }
    }

    /// Sends the request until there is an answer. The boolean is true if an earlier attempt may
    /// have been executed.
    pub(crate) fn send<Q, A>(
        mut self,
        path: &'static str,
        request: &Q,
    ) -> Result<(A, bool), EngineError>
    where
        Q: Message + Clone + 'static,
        A: Answer,
    {
        let endpoints = self.settings.endpoints.len();
        let mut wait = FIRST_WAIT;
        loop {
            for tried in 0..endpoints {
                let left = self.time.remaining();
                if left.is_zero() {
                    return Err(self.time_is_up());
                }
                let share = left / u32::try_from(endpoints - tried).unwrap_or(u32::MAX);
                let attempt = self.attempt(path, request, share);
                if let Some(answer) = attempt.map_err(|error| self.failed(error))? {
                    let url = self.settings.endpoints[self.started.current].url();
                    self.started.session.remember_endpoint(url);
                    return Ok((answer, self.is_lost));
                }
                self.started.current = (self.started.current + 1) % endpoints;
            }
            if !self.distrusted.contains(&false) {
                let msg = format!("no endpoint of etcd can be used: {}", self.reasons());
                return Err(self.failed(EngineError::new(Kind::Refused, msg)));
            }
            if self.cancellation.is_some_and(Cancellation::is_cancelled) {
                return Err(cancelled());
            }
            let wait_now = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            sleep(wait_now.min(self.time.remaining()));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Sends the request to the current endpoint; `None` if the next one has to be asked.
    fn attempt<Q, A>(
        &mut self,
        path: &'static str,
        request: &Q,
        within: Duration,
    ) -> Result<Option<A>, EngineError>
    where
        Q: Message + Clone + 'static,
        A: Answer,
    {
        let since = Instant::now();
        loop {
            let token = self.token(within)?;
            let left = within.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let attempt = self.exchange(path, request.clone(), token.as_ref(), left);
            let at = self.started.current;
            let url = self.settings.endpoints[at].url();
            self.distrusted[at] = matches!(attempt, Attempt::Distrusted(_));
            self.is_lost |= matches!(attempt, Attempt::Lost(_));
            match attempt {
                Attempt::Answer(answer) => return Ok(Some(answer)),
                Attempt::Final(error) => return Err(error),
                Attempt::Token(reason) => {
                    self.tokens += 1;
                    let login = self.settings.login.as_ref();
                    let Some(login) = login.filter(|_| self.tokens <= MOST_TOKENS) else {
                        return Err(EngineError::new(Kind::Refused, reason));
                    };
                    tracing::debug!(url, reason, "asking for another token");
                    self.renew_token(login, left)?;
                }
                Attempt::NotSent(reason) | Attempt::Distrusted(reason) | Attempt::Lost(reason) => {
                    tracing::debug!(url, reason, "no answer of this endpoint");
                    self.reasons[at] = Some(reason);
                    self.started.connections[at] = None;
                    return Ok(None);
                }
            }
        }
    }

    /// Connects to the current endpoint, if there is no connection, and sends.
    pub(crate) fn exchange<Q, A>(
        &mut self,
        path: &'static str,
        request: Q,
        token: Option<&AsciiMetadataValue>,
        within: Duration,
    ) -> Attempt<A>
    where
        Q: Message + 'static,
        A: Answer,
    {
        let started = &mut *self.started;
        let endpoint = &self.settings.endpoints[started.current];
        let since = Instant::now();
        let connection = &mut started.connections[started.current];
        let channel = match connection {
            Some(channel) => channel,
            None => {
                let connecting = connection::connect(endpoint, started.tls.as_ref(), within);
                match started.executor.run(connecting) {
                    Ok(channel) => connection.insert(channel),
                    Err(failed) => return failed,
                }
            }
        };
        let left = within.saturating_sub(since.elapsed());
        if left.is_zero() {
            return connection::not_connected(within);
        }
        let sending = connection::send(channel, path, request, token, left, self.cancellation);
        started.executor.run(sending)
    }

    fn time_is_up(&self) -> EngineError {
        let reasons = self.reasons();
        let within = in_words(self.time.bound());
        if self.is_lost && self.changes {
            let msg = format!(
                "no answer from etcd within {within}, so the change may have been made: {reasons}"
            );
            EngineError::new(Kind::Lost, msg)
        } else {
            let msg = format!("etcd can't be reached within {within}: {reasons}");
            EngineError::new(Kind::Unreachable, msg)
        }
    }

    /// Reason why each endpoint failed.
    fn reasons(&self) -> String {
        let endpoints = self.settings.endpoints.iter().zip(&self.reasons);
        let reasons: Vec<String> = endpoints
            .map(|(endpoint, reason)| {
                let reason = reason.as_deref().unwrap_or("not asked in time");
                format!("{endpoint}: {reason}")
            })
            .collect();
        reasons.join("; ")
    }

    /// Marks an error as [`Kind::Lost`] if an earlier attempt may have made the change.
    fn failed(&self, error: EngineError) -> EngineError {
        let is_lost = self.is_lost && self.changes && error.kind != Kind::Cancelled;
        EngineError {
            kind: if is_lost { Kind::Lost } else { error.kind },
            ..error
        }
    }
}
