//! One request: sent to one endpoint after the other, until one answers or the time is up.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::Cancellation;
use prost::Message;
use tonic::metadata::AsciiMetadataValue;

use crate::client::Client;
use crate::connection::{self, Attempt, in_words};
use crate::error::{Error, Kind};

/// Wait after all endpoints have failed; it doubles, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Tokens that are asked for during one request: one may expire while it is on its way.
const MOST_TOKENS: u32 = 3;

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

impl Client<'_> {
    /// Sends a request until there is an answer; true with it if an earlier attempt may have
    /// been executed.
    pub(crate) fn call<Q, A>(
        &mut self,
        path: &'static str,
        request: &Q,
        changes: bool,
    ) -> Result<(A, bool), Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.begin();
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
    pub(crate) fn exchange<Q, A>(
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

    fn time_is_up(&self, progress: &Progress, changes: bool) -> Error {
        let reasons = self.reasons(progress);
        let within = in_words(self.bound);
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
