//! An exchange with servers: a message is sent until an answer comes or the time is up.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use cni::{Error, code};

use crate::Grant;
use crate::socket::Socket;

/// The time after which a message is sent again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The reason why there is no lease.
#[derive(Debug)]
pub enum Failure {
    /// No server has answered in time.
    Unanswered,
    /// The server refuses, for this reason.
    Refused(String),
    /// The server offers this address in the place of the wanted one. It wasn't taken.
    OtherAddress(IpAddr),
    /// The interface can't be used.
    Io(io::Error),
}

/// Outcome of an exchange.
pub type Granted = Result<Grant, Failure>;

impl Failure {
    /// The error of a plugin, whose client is on this interface.
    pub(crate) fn into_error(self, interface: &str) -> Error {
        let code = match self {
            Self::Unanswered => code::TRY_AGAIN_LATER,
            Self::Refused(_) | Self::OtherAddress(_) => code::SERVER_REFUSED,
            Self::Io(_) => code::IO,
        };
        Error::new(code, format!("interface {interface}: {self}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered => f.write_str("no DHCP server answers"),
            Self::Refused(why) => write!(f, "the DHCP server refuses: {why}"),
            Self::OtherAddress(ip) => write!(f, "the DHCP server offers another address, {ip}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Sends a message, and again after each wait, until `read` takes a packet as its answer.
pub(crate) fn ask<T>(
    socket: &mut Socket,
    message: &[u8],
    until: Instant,
    mut read: impl FnMut(&[u8]) -> Option<T>,
) -> Result<T, Failure> {
    let mut wait = FIRST_WAIT;
    loop {
        socket.send(message)?;
        let again = (Instant::now() + wait).min(until);
        while let Some(packet) = socket.receive(again)? {
            if let Some(answer) = read(&packet) {
                return Ok(answer);
            }
        }
        if again >= until {
            return Err(Failure::Unanswered);
        }
        wait *= 2;
    }
}
