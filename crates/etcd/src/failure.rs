//! What a failure of a request says: whether it may have been executed, and who refuses whom.

use std::error::Error;

use cluster::client::{Access, reason, sources};
use cluster::{Kind, StoreError};
use tonic::{Code, ConnectError, Status};

/// The failure of a request. The texts are of etcd's `rpctypes/error.go`.
pub(crate) fn of_status(status: &Status, access: Access) -> StoreError {
    let said = status.message().trim_start_matches("etcdserver: ");
    let is = |text: &str| said.contains(text);
    let (kind, msg) = match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => (Kind::Refused, said.to_owned()),
        Code::InvalidArgument if is("user name is empty") => (
            Kind::Refused,
            "it wants a user: use a client certificate whose common name is the user's".to_owned(),
        ),
        Code::ResourceExhausted if is("too many requests") => (Kind::Unreachable, said.to_owned()),
        Code::InvalidArgument | Code::ResourceExhausted => (Kind::Unable, said.to_owned()),
        Code::Unavailable if is("no leader") => (Kind::Unreachable, said.to_owned()),
        Code::Unimplemented => (Kind::Unreachable, format!("it isn't etcd: {said}")),
        _ => {
            let reason = status.source().map_or_else(|| said.to_owned(), reason);
            let kind = access.kind_without_answer(&reason, !is_of_connection(status));
            (kind, reason)
        }
    };
    StoreError::new(kind, msg)
}

/// True if there was no connection, so the request was not sent.
fn is_of_connection(status: &Status) -> bool {
    let mut sources = status.source().into_iter().flat_map(sources);
    sources.any(|error| error.is::<ConnectError>())
}
