//! The client: requests to etcd, and the time limit for all of them together.

use cluster::{EngineError, Kind, Moment, TimeLimit};
use cni::Cancellation;
use prost::Message;
use tonic::transport::{Channel, ClientTlsConfig};

use crate::Settings;
use crate::connection;
use crate::failover::Call;
use crate::messages::{Answer, Header, KeyValue, Range, RangeAnswer, Txn, TxnResponse};
use crate::request::{TxnAnswer, after_prefix};
use crate::session::Session;
use cluster::client::Executor;

/// A client for one call. All of its requests together take no longer than
/// `ipam.etcd.timeout`.
pub struct Client<'a> {
    settings: &'a Settings,
    cancellation: Option<&'a dyn Cancellation>,
    /// Time limit of the requests.
    pub time: TimeLimit,
    moment: Option<Moment>,
    /// `None` before the first request.
    started: Option<Started>,
}

/// A client that has sent a request.
pub(crate) struct Started {
    pub(crate) tls: Option<ClientTlsConfig>,
    pub(crate) executor: Executor,
    /// A connection for each endpoint.
    pub(crate) connections: Vec<Option<Channel>>,
    /// Index of the endpoint that is asked first.
    pub(crate) current: usize,
    pub(crate) session: Session,
}

impl Started {
    fn new(settings: &Settings) -> Result<Self, EngineError> {
        let endpoints = &settings.endpoints;
        let session = Session::open(settings);
        let answered = |url: &str| endpoints.iter().position(|known| known.url() == url);
        Ok(Self {
            tls: connection::tls(settings)?,
            executor: Executor::new()?,
            connections: vec![None; endpoints.len()],
            current: answered(&session.remembered.endpoint)
                .unwrap_or_else(|| fastrand::usize(..endpoints.len())),
            session,
        })
    }
}

impl<'a> Client<'a> {
    /// A client. Certificates are read, and connections are made, with the first request.
    pub fn new(settings: &'a Settings, cancellation: Option<&'a dyn Cancellation>) -> Self {
        Self {
            settings,
            cancellation,
            time: TimeLimit::new(settings.timeout),
            moment: None,
            started: None,
        }
    }

    /// Sends a request until there is an answer. The boolean is true if an earlier attempt may
    /// have been executed.
    fn call<Q, A>(
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
        let started = match &mut self.started {
            Some(started) => started,
            None => self.started.insert(Started::new(self.settings)?),
        };
        let (time, cancellation) = (self.time, self.cancellation);
        Call::new(self.settings, started, time, cancellation, changes).send(path, request)
    }

    /// Cluster ID and revision in the last answer to a read or a transaction.
    pub fn moment(&self) -> Option<Moment> {
        self.moment
    }

    fn note(&mut self, header: Option<&Header>) {
        self.moment = header.map(|header| Moment {
            cluster: header.cluster_id,
            revision: header.revision,
        });
    }

    /// Reads keys. The answer includes every earlier write, whichever endpoint answers.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn range(&mut self, range: &Range) -> Result<RangeAnswer, EngineError> {
        let (answer, _) =
            self.call::<Range, RangeAnswer>("/etcdserverpb.KV/Range", range, false)?;
        self.note(answer.header.as_ref());
        Ok(answer)
    }

    /// Reads all keys with this prefix, in pages of `page` keys. Each page shows the keys as they
    /// are when it is read.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn all(
        &mut self,
        prefix: &str,
        page: u32,
        keys_only: bool,
    ) -> Result<Vec<KeyValue>, EngineError> {
        let end = after_prefix(prefix.as_bytes());
        let mut first = prefix.as_bytes().to_vec();
        let mut all = Vec::new();
        loop {
            let answer = self.range(&Range {
                limit: page.into(),
                keys_only,
                ..Range::between(first.clone(), end.clone())
            })?;
            all.extend(answer.kvs);
            if !answer.more {
                return Ok(all);
            }
            if let Some(last) = all.last() {
                first.clone_from(&last.key);
                first.push(0);
            }
        }
    }

    /// Executes a transaction. If an answer is lost, the transaction is sent again. Its
    /// else-branch must therefore show whether it has been applied already
    /// ([`TxnAnswer::resent`]).
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`]. With [`cluster::Kind::Lost`] and [`cluster::Kind::Cancelled`], it may
    /// have been applied.
    pub fn txn(&mut self, txn: &Txn) -> Result<TxnAnswer, EngineError> {
        let changes = !txn.only_reads();
        let (response, resent) =
            self.call::<Txn, TxnResponse>("/etcdserverpb.KV/Txn", txn, changes)?;
        self.note(response.header.as_ref());
        TxnAnswer::new(txn, response, resent).ok_or_else(|| {
            let kind = if changes {
                Kind::Lost
            } else {
                Kind::Unreachable
            };
            EngineError::new(kind, "etcd's answer lacks the results of reads")
        })
    }
}
