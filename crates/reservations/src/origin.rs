//! Origin of a reservation: which call of a chain, and which boot of the machine, has made
//! it. Kept in extended attributes of the reservation's file, which appear with the file.
//!
//! The content of the file is host-local's and has no room for it. A reservation without
//! these attributes was made by host-local, by a call outside of a chain, or on a file
//! system that has none.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use rustix::fs::{OFlags, XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

use crate::directory::Directory;

/// Most bytes of a value. Calls and boots have shorter IDs.
const MOST_BYTES: usize = 256;

/// A fact about the origin of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// The ID of the chain's call.
    Call,
    /// The kernel's ID of the boot.
    Boot,
}

impl Fact {
    fn attribute(self) -> &'static str {
        match self {
            Self::Call => "user.ipam-delegated.call",
            Self::Boot => "user.ipam-delegated.boot",
        }
    }
}

/// The origin in a file's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// This ID.
    Id(String),
    /// The file has no such attribute, and its file system keeps attributes.
    Nothing,
    /// The file system keeps no attributes.
    Impossible,
}

/// Notes the origin in a file that has no name yet. If the file system has no attributes, or
/// refuses them, the reservation counts as one of unknown origin, which is kept wherever the
/// origin decides.
///
/// # Errors
///
/// Any other I/O error, such as that of a full disk. The reservation must then not be made: its
/// rollback would take it for another call's.
pub(crate) fn note(file: impl AsFd, facts: &[(Fact, &str)]) -> io::Result<()> {
    for (fact, id) in facts {
        match fsetxattr(&file, fact.attribute(), id.as_bytes(), XattrFlags::CREATE) {
            Err(error @ (Errno::OPNOTSUPP | Errno::PERM)) => {
                tracing::debug!(attribute = fact.attribute(), %error, "the origin is not noted");
            }
            other => other?,
        }
    }
    Ok(())
}

/// Reads one fact about the reservation of an address.
pub(crate) fn read(directory: &Directory, ip: IpAddr, fact: Fact) -> io::Result<Noted> {
    let (file, _) = directory.open_file(&ip.to_string(), OFlags::RDONLY)?;
    let mut id = [0; MOST_BYTES];
    match fgetxattr(&file, fact.attribute(), &mut id[..]) {
        Ok(length) => Ok(Noted::Id(
            String::from_utf8_lossy(&id[..length]).into_owned(),
        )),
        Err(Errno::NODATA) => Ok(Noted::Nothing),
        Err(Errno::OPNOTSUPP) => Ok(Noted::Impossible),
        Err(error) => Err(error.into()),
    }
}
