//! What a failure of a request says: whether it may have been executed, and who refuses whom.

use std::error::Error;

use cluster::client::{is_client_refused, is_distrust, reason};
use cluster::{Kind, StoreError};
use tonic::{Code, ConnectError, Status};

/// The failure of a request; `changes` says whether it would change something, `has_others` whether
/// there are other members, which may be trusted. The texts are of etcd's `rpctypes/error.go`.
pub(crate) fn of_status(status: &Status, changes: bool, has_others: bool) -> StoreError {
    let said = status.message().trim_start_matches("etcdserver: ");
    let is = |text: &str| said.contains(text);
    let lost = match changes {
        true => Kind::Lost,
        false => Kind::Unreachable,
    };
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
            let is_refused = match is_of_connection(status) {
                true => is_distrust(status),
                false => is_client_refused(status),
            };
            let kind = match is_refused {
                true if has_others => Kind::Unreachable,
                true => Kind::Refused,
                false if is_of_connection(status) => Kind::Unreachable,
                false => lost,
            };
            (kind, reason)
        }
    };
    StoreError::new(kind, msg)
}

/// True if there was no connection, so the request was not sent.
fn is_of_connection(status: &Status) -> bool {
    let mut next = status.source();
    while let Some(error) = next {
        if error.is::<ConnectError>() {
            return true;
        }
        next = error.source();
    }
    false
}
