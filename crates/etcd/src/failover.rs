//! One request: sent to one endpoint after the other, until one answers or the time is up.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cluster::{EngineError, Kind};
use cni::Cancellation;
use prost::Message;
use tonic::metadata::AsciiMetadataValue;

use crate::client::Client;
use crate::connection::{self, Attempt, cancelled, in_words};
use crate::messages::Answer;

/// First wait after all endpoints have failed. It doubles each time, up to the longest wait.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Most tokens that are requested during one request: a new token may expire before it is used.
const MOST_TOKENS: u32 = 3;

/// The state of one request over all of its attempts.
struct Progress {
    /// Reason why each endpoint failed last.
    reasons: Vec<Option<String>>,
    /// True for endpoints whose certificate isn't trusted, or that don't trust the client's.
    distrusted: Vec<bool>,
    /// True if an attempt may have made a change.
    is_lost: bool,
    changes: bool,
    tokens: u32,
}

impl Client<'_> {
    /// Sends a request until there is an answer. The boolean is true if an earlier attempt may
    /// have been executed.
    pub(crate) fn call<Q, A>(
        &mut self,
        path: &'static str,
        request: &Q,
        changes: bool,
    ) -> Result<(A, bool), EngineError>
    where
        Q: Message + Clone + 'static,
        A: Answer,
    {
        self.time.start_request();
        self.start()?;
        let endpoints = self.settings.endpoints.len();
        let mut progress = Progress {
            reasons: vec![None; endpoints],
            distrusted: vec![false; endpoints],
            is_lost: false,
            changes,
            tokens: 0,
        };
        let mut wait = FIRST_WAIT;
        loop {
            for tried in 0..endpoints {
                let left = self.time.remaining();
                if left.is_zero() {
                    return Err(self.time_is_up(&progress));
                }
                let share = left / u32::try_from(endpoints - tried).unwrap_or(u32::MAX);
                let attempt = self.attempt(path, request, share, &mut progress);
                if let Some(answer) = attempt.map_err(|error| progress.failed(error))? {
                    let started = self.start()?;
                    let at = started.current;
                    let url = self.settings.endpoints[at].url();
                    self.start()?.session.remember_endpoint(url);
                    return Ok((answer, progress.is_lost));
                }
                let started = self.start()?;
                started.current = (started.current + 1) % endpoints;
            }
            if progress
                .distrusted
                .iter()
                .all(|is_distrusted| *is_distrusted)
            {
                let reasons = self.reasons(&progress);
                let msg = format!("no endpoint of etcd can be used: {reasons}");
                return Err(progress.failed(EngineError::new(Kind::Refused, msg)));
            }
            if self.is_cancelled() {
                return Err(cancelled());
            }
            let wait_now = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            sleep(wait_now.min(self.time.remaining()));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// The cancellation; `None` while a change must be completed.
    fn cancellation(&self) -> Option<&dyn Cancellation> {
        self.cancellation.filter(|_| !self.time.is_final())
    }

    fn is_cancelled(&self) -> bool {
        self.cancellation().is_some_and(Cancellation::is_cancelled)
    }

    /// Sends a request to the current endpoint; `None` if the next one has to be asked.
    fn attempt<Q, A>(
        &mut self,
        path: &'static str,
        request: &Q,
        within: Duration,
        progress: &mut Progress,
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
            let attempt = self.exchange(path, request.clone(), token.as_ref(), left)?;
            let at = self.start()?.current;
            let url = self.settings.endpoints[at].url();
            progress.distrusted[at] = matches!(attempt, Attempt::Distrusted(_));
            progress.is_lost |= matches!(attempt, Attempt::Lost(_));
            match attempt {
                Attempt::Answer(answer) => return Ok(Some(answer)),
                Attempt::Final(error) => return Err(error),
                Attempt::Token(reason) => {
                    progress.tokens += 1;
                    if self.settings.login.is_none() || progress.tokens > MOST_TOKENS {
                        return Err(EngineError::new(Kind::Refused, reason));
                    }
                    tracing::debug!(url, reason, "asking for another token");
                    self.renew_token(left)?;
                }
                Attempt::NotSent(reason) | Attempt::Distrusted(reason) | Attempt::Lost(reason) => {
                    tracing::debug!(url, reason, "no answer of this endpoint");
                    progress.reasons[at] = Some(reason);
                    self.start()?.connections[at] = None;
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
    ) -> Result<Attempt<A>, EngineError>
    where
        Q: Message + 'static,
        A: Answer,
    {
        self.start()?;
        let cancellation = self.cancellation.filter(|_| !self.time.is_final());
        let Some(started) = &mut self.started else {
            unreachable!("it was started just now");
        };
        let endpoint = &self.settings.endpoints[started.current];
        let since = Instant::now();
        let connection = &mut started.connections[started.current];
        let channel = match connection {
            Some(channel) => channel,
            None => {
                let connecting = connection::connect(endpoint, started.tls.as_ref(), within);
                match started.executor.run(connecting) {
                    Ok(channel) => connection.insert(channel),
                    Err(failed) => return Ok(failed.into()),
                }
            }
        };
        let left = within.saturating_sub(since.elapsed());
        if left.is_zero() {
            let reason = format!("no connection within {}", in_words(within));
            return Ok(Attempt::NotSent(reason));
        }
        let sending = connection::send(channel, path, request, token, left, cancellation);
        Ok(started.executor.run(sending))
    }

    fn time_is_up(&self, progress: &Progress) -> EngineError {
        let reasons = self.reasons(progress);
        let within = in_words(self.time.bound());
        if progress.is_lost && progress.changes {
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
    fn reasons(&self, progress: &Progress) -> String {
        let endpoints = self.settings.endpoints.iter().zip(&progress.reasons);
        let reasons: Vec<String> = endpoints
            .map(|(endpoint, reason)| {
                let reason = reason.as_deref().unwrap_or("not asked in time");
                format!("{endpoint}: {reason}")
            })
            .collect();
        reasons.join("; ")
    }
}

impl Progress {
    /// Marks an error as [`Kind::Lost`] if an earlier attempt may have made the change.
    fn failed(&self, error: EngineError) -> EngineError {
        let is_lost = self.is_lost && self.changes && error.kind != Kind::Cancelled;
        EngineError {
            kind: if is_lost { Kind::Lost } else { error.kind },
            ..error
        }
    }
}
