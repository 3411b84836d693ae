//! Refuses peers of other users: only root and the daemon's own user may call.

use std::io;

use rustix::process::geteuid;

use crate::http::refusal::Refusal;

/// The reason why a peer may not call: it is neither root nor the daemon's own user.
pub(crate) fn refused(peer: io::Result<u32>) -> Option<Refusal> {
    match peer {
        Ok(user) if user == 0 || user == geteuid().as_raw() => None,
        Ok(user) => Some(Refusal::Forbidden(format!(
            "user {user} may not call: only root may"
        ))),
        Err(error) => Some(Refusal::Forbidden(format!(
            "who calls is not known: {error}"
        ))),
    }
}
