//! The client: requests to etcd, and the time limit for all of them together.

use cluster::{EngineError, Kind, Moment, TimeLimit};
use cni::Cancellation;
use tonic::transport::{Channel, ClientTlsConfig};

use crate::Settings;
use crate::connection;
use crate::messages::{
    DeleteRequest, DeleteResponse, Header, KeyValue, PutRequest, PutResponse, RangeRequest,
    RangeResponse, TxnRequest, TxnResponse,
};
use crate::request::{Range, RangeAnswer, Txn, TxnAnswer, after_prefix};
use crate::session::Session;
use cluster::client::Executor;

/// A client for one call. All of its requests together take no longer than
/// `ipam.etcd.timeout`.
pub struct Client<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// Time limit of the requests.
    pub time: TimeLimit,
    moment: Option<Moment>,
    /// `None` before the first request.
    pub(crate) started: Option<Started>,
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

    /// The parts that requests need.
    pub(crate) fn start(&mut self) -> Result<&mut Started, EngineError> {
        if self.started.is_none() {
            let endpoints = &self.settings.endpoints;
            let session = Session::open(self.settings);
            let answered = |url: &str| endpoints.iter().position(|known| known.url() == url);
            self.started = Some(Started {
                tls: connection::tls(self.settings)?,
                executor: Executor::new()?,
                connections: vec![None; endpoints.len()],
                current: answered(&session.remembered.endpoint)
                    .unwrap_or_else(|| fastrand::usize(..endpoints.len())),
                session,
            });
        }
        Ok(self.started.as_mut().expect("it was started just now"))
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
        let (response, _) =
            self.call::<RangeRequest, RangeResponse>("/etcdserverpb.KV/Range", &range.0, false)?;
        self.note(response.header.as_ref());
        Ok(response.into())
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
            let mut range = Range::between(first.clone(), end.clone()).limit(page);
            range.0.keys_only = keys_only;
            let answer = self.range(&range)?;
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

    /// Writes one key.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn put(
        &mut self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Result<(), EngineError> {
        let (key, value) = (key.into(), value.into());
        let request = PutRequest { key, value };
        self.call::<_, PutResponse>("/etcdserverpb.KV/Put", &request, true)?;
        Ok(())
    }

    /// Deletes the keys with this prefix.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn delete_prefix(&mut self, prefix: impl Into<Vec<u8>>) -> Result<(), EngineError> {
        let key = prefix.into();
        let range_end = after_prefix(&key);
        let request = DeleteRequest { key, range_end };
        self.call::<_, DeleteResponse>("/etcdserverpb.KV/DeleteRange", &request, true)?;
        Ok(())
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
        let (response, resent) = self.call::<TxnRequest, TxnResponse>(
            "/etcdserverpb.KV/Txn",
            &txn.to_request(),
            changes,
        )?;
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
