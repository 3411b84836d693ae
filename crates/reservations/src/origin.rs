//! Origin of a reservation: which call of a chain, and which boot of the machine, has made
//! it. Kept in extended attributes of the reservation's file, which appear with the file.
//!
//! The content of the file is in host-local's format, which has no place for the origin. A
//! reservation without these attributes was made by host-local, by a call outside of a chain,
//! or on a file system without attributes.

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

/// One fact of the origin, as the file's attributes have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// This ID.
    Id(String),
    /// The file has no such attribute, and its file system keeps attributes.
    Nothing,
    /// The file system keeps no attributes.
    Impossible,
}

/// Writes the origin into the attributes of a file that doesn't have the address as its name
/// yet. If the file system has no attributes, or refuses them, the origin is unknown, and the
/// reservation is kept wherever its release depends on the origin.
///
/// # Errors
///
/// Any other I/O error, such as that of a full disk. The reservation must then not be made: the
/// rollback of this call would take it for a reservation of another call.
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
