//! Failures of requests, by what the caller can do.

use cluster::client::{Access, reason, sources};
use cluster::{Kind, StoreError};
use hyper_util::client::legacy::Error as ConnectionError;
use kube::core::Status;

use crate::Kubernetes;

impl Kubernetes<'_> {
    /// The failure for an error of `kube`.
    pub(crate) fn failure(&self, error: &kube::Error, access: Access) -> StoreError {
        let (kind, why) = match error {
            kube::Error::Api(status) => (kind_of_status(status, access), describe(status)),
            kube::Error::Auth(error) => (Kind::Settings, reason(error)),
            kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
                (Kind::Unable, reason(error))
            }
            _ => {
                let why = reason(error);
                (access.kind_without_answer(&why, !is_unsent(error)), why)
            }
        };
        self.named(kind, &why)
    }
}

/// Kind of an API server's refusal. With 500 or more, and with a proxy's 408, a write may have been
/// executed.
fn kind_of_status(status: &Status, access: Access) -> Kind {
    match status.code {
        401 | 403 => Kind::Refused,
        // A list that took so long that its state was compacted; too many requests.
        410 | 429 => Kind::Unreachable,
        // etcd's disk is full: nothing was written.
        500 if status.message.contains("database space exceeded") => Kind::Unable,
        408 | 500.. => access.unanswered(),
        _ => Kind::Unable,
    }
}

/// True if there was no connection, so that the request wasn't sent.
fn is_unsent(error: &kube::Error) -> bool {
    let mut connections = sources(error).filter_map(|error| error.downcast_ref());
    connections.any(ConnectionError::is_connect)
}

/// The API server's message, with the code.
fn describe(status: &Status) -> String {
    let message = status.message.trim();
    if status.code == 404 && status.details.is_none() {
        return format!(
            "{message} (404): the kinds of ipam-delegated.io/v1 are missing, see kubectl get crd pools.ipam-delegated.io addresses.ipam-delegated.io"
        );
    }
    format!("{message} ({})", status.code)
}

/// True if this error says that this object doesn't exist. A missing kind isn't that.
pub(crate) fn is_missing(error: &kube::Error, name: &str) -> bool {
    is_about(error, "NotFound", name)
}

/// True for the API server's answer with this reason about an object of this name.
pub(crate) fn is_about(error: &kube::Error, reason: &str, name: &str) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let named = status.details.as_ref().map(|details| details.name.as_str());
    status.reason == reason && named == Some(name)
}
