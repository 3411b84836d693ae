//! The client: its requests, and the time that they may take together.

use std::time::{Duration, Instant};

use cni::Cancellation;
use etcd_settings::Settings;
use tonic::transport::{Channel, ClientTlsConfig};

use crate::connection;
use crate::error::Error;
use crate::executor::Executor;
use crate::messages::{
    DeleteRequest, DeleteResponse, Header, KeyValue, MemberStatus, PutRequest, PutResponse,
    RangeRequest, RangeResponse, StatusRequest, TxnRequest, TxnResponse,
};
use crate::request::{Range, RangeAnswer, Txn, TxnAnswer, after_prefix};
use crate::session::Session;

/// A state of etcd: its cluster, and the store's revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The cluster's ID.
    pub cluster: u64,
    /// The revision, which grows with each change.
    pub revision: i64,
}

/// A client for one call of a plugin. All of its requests together take no longer than
/// `ipam.etcd.timeout`.
pub struct Client<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    pub(crate) tls: Option<ClientTlsConfig>,
    pub(crate) executor: Executor,
    /// A connection for each endpoint.
    pub(crate) connections: Vec<Option<Channel>>,
    /// Index of the endpoint that is asked first.
    pub(crate) current: usize,
    pub(crate) session: Session,
    started: Instant,
    /// The time that messages name: `timeout`, or less.
    pub(crate) bound: Duration,
    deadline: Instant,
    /// True if each request may take `timeout`, and not all of them together.
    bounds_each: bool,
    pub(crate) requests: u32,
    moment: Option<Moment>,
}

impl<'a> Client<'a> {
    /// A client. It reads the certificates, and connects with the first request.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Settings`] for a file that can't be used.
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
            bound: settings.timeout,
            deadline: started + settings.timeout,
            bounds_each: false,
            requests: 0,
            moment: None,
            settings,
            cancellation,
        })
    }

    /// Ends all requests by this time, if that is earlier: a call has one bound for everything
    /// that it does. Messages name the bound.
    #[must_use]
    pub fn until(mut self, deadline: Instant, bound: Duration) -> Self {
        self.bound = self.bound.min(bound);
        self.deadline = self.deadline.min(deadline);
        self
    }

    /// The settings.
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Time that is left for requests.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// From now on, each request may take `timeout` by itself: for a person, who waits for as
    /// long as there is progress.
    pub fn bound_each_request(&mut self) {
        self.bounds_each = true;
    }

    /// Begins a request.
    pub(crate) fn begin(&mut self) {
        if self.bounds_each {
            self.deadline = Instant::now() + self.settings.timeout;
        }
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

    /// State of etcd at the last answer to a read or a transaction.
    pub fn moment(&self) -> Option<Moment> {
        self.moment
    }

    fn note(&mut self, header: Option<&Header>) {
        self.moment = header.map(|it| Moment {
            cluster: it.cluster_id,
            revision: it.revision,
        });
    }

    /// Reads one key.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    pub fn get(&mut self, key: impl Into<Vec<u8>>) -> Result<Option<KeyValue>, Error> {
        Ok(self.range(&Range::key(key))?.kvs.pop())
    }

    /// Reads keys. What was written before is seen, whatever endpoint answers.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    pub fn range(&mut self, range: &Range) -> Result<RangeAnswer, Error> {
        let (response, _) =
            self.call::<RangeRequest, RangeResponse>("/etcdserverpb.KV/Range", &range.0, false)?;
        self.note(response.header.as_ref());
        Ok(response.into())
    }

    /// Reads all keys that start with this, in pages of `page`, and hands each page to `f`. A
    /// page shows the keys as they are when it is read.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`], and those of `f`.
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
    /// See [`crate::Kind`].
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
    /// See [`crate::Kind`].
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
    /// See [`crate::Kind`]. With [`crate::Kind::Lost`] and [`crate::Kind::Cancelled`], it may have been applied.
    pub fn txn(&mut self, txn: &Txn) -> Result<TxnAnswer, Error> {
        let changes = !txn.only_reads();
        let (response, resent) = self.call::<TxnRequest, TxnResponse>(
            "/etcdserverpb.KV/Txn",
            &txn.to_request(),
            changes,
        )?;
        self.note(response.header.as_ref());
        Ok(TxnAnswer::new(response, resent))
    }

    /// The state of the member that answers.
    ///
    /// # Errors
    ///
    /// See [`crate::Kind`].
    pub fn status(&mut self) -> Result<MemberStatus, Error> {
        let (response, _) =
            self.call("/etcdserverpb.Maintenance/Status", &StatusRequest {}, false)?;
        Ok(response)
    }
}
