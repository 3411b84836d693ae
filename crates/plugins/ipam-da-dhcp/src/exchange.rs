//! An exchange of a client with the DHCP servers of a link. Its errors have a code: 11 if no server
//! answers in time, 116 if one refuses or has another address than the wanted one, 5 if the link
//! can't be used.

use std::net::IpAddr;
use std::time::Instant;

use cni::{Error, code};

use crate::{Client, Grant, Lease, Link};

/// An exchange.
pub struct Exchange<'a> {
    /// The link of the client.
    pub link: &'a Link,
    /// Who asks.
    pub client: &'a Client,
    /// The end of the patience.
    pub until: Instant,
}

impl Exchange<'_> {
    /// Asks for a lease of the wanted address; of any of its family, if it is unspecified.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn acquire(&self, wanted: IpAddr) -> Result<Grant, Error> {
        let grant = match wanted {
            IpAddr::V4(ip) => self.acquire_v4(ip),
            IpAddr::V6(_) => self.acquire_v6(wanted),
        };
        grant?.of_wanted(wanted)
    }

    /// Asks for more time of an address: a lease's own server, or, without one, all servers.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn renew(&self, address: IpAddr, server: Option<&str>) -> Result<Grant, Error> {
        let grant = match address {
            IpAddr::V4(ip) => self.renew_v4(ip, server),
            IpAddr::V6(_) => self.renew_v6(address, server),
        };
        grant?.of_wanted(address)
    }

    /// Tells the server that a lease isn't needed any more. No answer is waited for.
    pub(crate) fn release(&self, lease: &Lease) -> Result<(), Error> {
        match lease.address {
            IpAddr::V4(ip) => self.release_v4(lease, ip),
            IpAddr::V6(_) => self.release_v6(lease),
        }
    }
}

/// The error of a server that refuses, for this reason.
pub(crate) fn refused(why: impl std::fmt::Display) -> Error {
    Error::new(
        code::SERVER_REFUSED,
        format!("the DHCP server refuses: {why}"),
    )
}

/// The error of a server that has another address than the wanted one.
pub(crate) fn other_address(ip: impl std::fmt::Display) -> Error {
    refused(format_args!("it has another address, {ip}"))
}
