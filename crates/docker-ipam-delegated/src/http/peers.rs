//! Refuses peers that are neither root nor the daemon's user.

use std::io;

use rustix::process::geteuid;

use crate::http::refusal::Refusal;

/// The reason why a peer may not call: it is neither root nor the daemon's own user.
pub(crate) fn refused(peer: io::Result<u32>) -> Option<Refusal> {
    let why = match peer {
        Ok(user) if user == 0 || user == geteuid().as_raw() => return None,
        Ok(user) => format!("user {user} may not call: only root may"),
        Err(error) => format!("the caller's user is not known: {error}"),
    };
    Some(Refusal::new(403, why))
}
