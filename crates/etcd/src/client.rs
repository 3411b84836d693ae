//! A client of etcd's members: transactions, and lists page by page.
//!
//! Before the first request, no certificate is read and nothing is connected. Each request goes to one
//! member, and after a failure the next request to another one; nothing is repeated here. The failure
//! of a request names all members.

use std::path::Path;

use cluster::client::{Access, Executor, is_distrust, reason};
use cluster::{Kind, StoreError, TimeLimit};
use http::uri::PathAndQuery;
use tonic::Request;
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic_prost::ProstCodec;

use crate::failure::of_status;
use crate::messages::{KeyValue, Range, RangeAnswer, TxnAnswer};
use crate::{Op, Settings, Txn, Url};

/// The only method that is called: one transaction reads, changes, or both.
const METHOD: &str = "/etcdserverpb.KV/Txn";

/// Largest answer, in bytes. A page of keys with their values stays far below it.
const LARGEST_ANSWER: usize = 64 << 20;

/// Number of keys that one request lists.
const PAGE: i64 = 5_000;

/// The largest certificate or key, in bytes.
const LARGEST_PEM: u64 = 1 << 20;

/// A client for the requests of one call. It connects with the first request.
pub struct Client<'a> {
    settings: Settings,
    time: TimeLimit<'a>,
    started: Option<Started>,
}

/// The channels to all members, of which one is used until a request of it fails.
struct Started {
    executor: Executor,
    /// The one in use is the first.
    channels: Vec<Channel>,
}

impl<'a> Client<'a> {
    /// A client that has not read its certificates yet. All of its requests together have this time.
    pub fn new(settings: Settings, time: TimeLimit<'a>) -> Self {
        Self {
            settings,
            time,
            started: None,
        }
    }

    /// Time limit of the requests.
    pub(crate) fn time(&self) -> &TimeLimit<'a> {
        &self.time
    }

    /// Reads keys. The answer includes every earlier write, whichever member answers.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn range(&mut self, range: Range) -> Result<RangeAnswer, StoreError> {
        Ok(self.ranges([range])?.remove(0))
    }

    /// Reads all keys of a range, in pages, and passes on each. Each page shows the keys as they are
    /// when it is read.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn each(
        &mut self,
        range: &Range,
        mut each: impl FnMut(KeyValue),
    ) -> Result<(), StoreError> {
        let mut page = Range {
            limit: PAGE,
            ..range.clone()
        };
        loop {
            let left = self.time.left();
            let answer = self.range(page.clone())?;
            self.time.set_left(left);
            if let Some(last) = answer.kvs.last() {
                page.key = [&last.key[..], &[0]].concat();
            }
            let is_last = !answer.more || answer.kvs.is_empty();
            answer.kvs.into_iter().for_each(&mut each);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Executes a transaction; true if its conditions held.
    ///
    /// # Errors
    ///
    /// [`Kind::Lost`] if it may have been executed.
    pub fn txn(&mut self, txn: &Txn) -> Result<bool, StoreError> {
        Ok(self.call(txn, Access::Write)?.succeeded)
    }

    /// Reads several ranges at one moment, with one answer for each.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn ranges(
        &mut self,
        ranges: impl IntoIterator<Item = Range>,
    ) -> Result<Vec<RangeAnswer>, StoreError> {
        let reads = Txn {
            then: ranges.into_iter().map(Op::get).collect(),
            ..Txn::default()
        };
        let answers = self.call(&reads, Access::Read)?.responses.into_iter();
        let answers: Vec<RangeAnswer> = answers.filter_map(|answer| answer.range).collect();
        match answers.len() == reads.then.len() {
            true => Ok(answers),
            false => Err(self.named(Kind::Unreachable, "its answer lacks results")),
        }
    }

    /// Sends a request to the member in use; after a failure, the next request goes to another one.
    fn call(&mut self, txn: &Txn, access: Access) -> Result<TxnAnswer, StoreError> {
        if self.started.is_none() {
            self.started = Some(self.start()?);
        }
        let started = self.started.as_mut().expect("it is started");
        let answered = started.exchange(txn, access, &self.time);
        if answered.is_err() {
            started.channels.rotate_left(1);
        }
        answered.map_err(|error| match error.kind {
            // A failure of TLS: another member may be trusted.
            Kind::Refused if self.settings.endpoints.len() > 1 && is_distrust(&error.msg) => {
                self.named(Kind::Unreachable, &error.msg)
            }
            kind => self.named(kind, &error.msg),
        })
    }

    /// The failure, with the members' URLs.
    fn named(&self, kind: Kind, why: &str) -> StoreError {
        let urls: Vec<&str> = self.settings.endpoints.iter().map(Url::as_str).collect();
        StoreError::new(kind, format!("etcd at {}: {why}", urls.join(", ")))
    }

    /// Reads the certificates, and prepares a channel to each member.
    fn start(&self) -> Result<Started, StoreError> {
        let tls = self.tls()?;
        let executor = Executor::new()?;
        let urls = self.settings.endpoints.iter();
        // A channel starts tasks, which belong to the runtime.
        let connect = async { urls.map(|url| channel(url, tls.as_ref())).collect() };
        let within = self.time.attempt();
        let connected = executor.run(connect, &self.time, within, Access::Read);
        let channels: Result<Vec<Channel>, StoreError> = connected.and_then(|channels| channels);
        let mut channels = channels.map_err(|error| self.named(error.kind, &error.msg))?;
        // Clients begin with different members.
        let first = fastrand::usize(..channels.len());
        channels.rotate_left(first);
        Ok(Started { executor, channels })
    }

    fn tls(&self) -> Result<Option<ClientTlsConfig>, StoreError> {
        let Some(ca) = &self.settings.ca else {
            return Ok(None);
        };
        let ca = Certificate::from_pem(self.pem("ca", ca)?);
        let mut tls = ClientTlsConfig::new().ca_certificate(ca);
        if let Some((cert, key)) = &self.settings.identity {
            let (cert, key) = (self.pem("cert", cert)?, self.pem("key", key)?);
            tls = tls.identity(Identity::from_pem(cert, key));
        }
        Ok(Some(tls))
    }

    /// A file with at least one PEM section.
    fn pem(&self, key: &str, path: &Path) -> Result<Vec<u8>, StoreError> {
        let refused = |why: &str| {
            let (file, path) = (self.settings.file.display(), path.display());
            StoreError::new(Kind::Settings, format!("{file}.{key}: {path}: {why}"))
        };
        let content = state_files::read_regular(path, LARGEST_PEM)
            .map_err(|error| refused(&error.to_string()))?;
        // rustls accepts a file without a section, as an empty list of authorities.
        match content.windows(11).any(|part| part == b"-----BEGIN ") {
            true => Ok(content),
            false => Err(refused("it is no PEM file")),
        }
    }
}

impl Started {
    /// Sends a request, and waits for its answer for half of the time that is left.
    fn exchange(
        &self,
        txn: &Txn,
        access: Access,
        time: &TimeLimit<'_>,
    ) -> Result<TxnAnswer, StoreError> {
        let within = time.attempt();
        let mut request = Request::new(txn.clone());
        request.set_timeout(within);
        // A member without a leader then refuses immediately.
        let leader = AsciiMetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", leader);
        let exchange = async {
            let in_use = self.channels[0].clone();
            let mut grpc = Grpc::new(in_use).max_decoding_message_size(LARGEST_ANSWER);
            let not_ready = |error| StoreError::new(Kind::Unreachable, reason(&error));
            grpc.ready().await.map_err(not_ready)?;
            let path = PathAndQuery::from_static(METHOD);
            let answer = grpc.unary(request, path, ProstCodec::default());
            answer.await.map_err(|status| of_status(&status, access))
        };
        let response = self.executor.run(exchange, time, within, access)??;
        let answer: TxnAnswer = response.into_inner();
        match answer.header {
            Some(_) => Ok(answer),
            None => Err(StoreError::new(
                access.unanswered(),
                "its answer has no header, so it isn't etcd",
            )),
        }
    }
}

/// A channel to a member, whose name its certificate must have.
fn channel(url: &Url, tls: Option<&ClientTlsConfig>) -> Result<Channel, StoreError> {
    let mut endpoint = Endpoint::new(url.as_str().to_owned());
    if let Some(tls) = tls {
        let tls = tls.clone().domain_name(&url.host);
        endpoint = endpoint.and_then(|endpoint| endpoint.tls_config(tls));
    }
    match endpoint {
        Ok(endpoint) => Ok(endpoint.connect_lazy()),
        Err(error) => {
            let why = format!("{}: {}", url.as_str(), reason(&error));
            Err(StoreError::new(Kind::Settings, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::os::fd::BorrowedFd;

    use cluster::DEFAULT_TIMEOUT;
    use cni::Cancellation;
    use serde_json::json;

    use super::*;

    struct Cancelled;

    impl Cancellation for Cancelled {
        fn is_cancelled(&self) -> bool {
            true
        }

        fn fd(&self) -> io::Result<BorrowedFd<'_>> {
            Err(io::Error::other("nobody waits for it"))
        }
    }

    /// The failure of the first request, whose certificates are these texts.
    fn refused(pem: &str, cancellation: Option<&dyn Cancellation>) -> StoreError {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("pem"), pem).unwrap();
        let settings = json!({"endpoints": ["https://127.0.0.1:1", "https://127.0.0.1:2"],
            "ca": path("pem"), "cert": path("pem"), "key": path("pem")});
        fs::write(path("etcd.json"), settings.to_string()).unwrap();
        let settings = Settings::read(&path("etcd.json")).unwrap();
        let mut client = Client::new(settings, TimeLimit::new(DEFAULT_TIMEOUT, cancellation));
        client.range(Range::key("k")).unwrap_err()
    }

    #[test]
    fn a_failure_before_the_first_request_names_the_members() {
        let members = "etcd at https://127.0.0.1:1, https://127.0.0.1:2: ";
        let unusable = refused("-----BEGIN CERTIFICATE-----\n", None);
        let why = format!("{members}https://127.0.0.1:1: Error parsing TLS");
        assert!(unusable.msg.starts_with(&why), "{unusable}");
        assert_eq!(unusable.kind, Kind::Settings);
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let cancelled = refused(pem, Some(&Cancelled));
        let why = format!("{members}the call is cancelled");
        assert_eq!(cancelled, StoreError::new(Kind::Cancelled, why));
    }
}
