//! A message to DHCP servers before it is sent. `v4` and `v6` make it, an exchange sends it.

use std::fmt::Display;

use cni::{Error, code};

use crate::Grant;
use crate::socket::Socket;

/// The purpose of a client's message, and the server that it is for.
#[derive(Clone, Copy)]
pub enum Purpose<'a> {
    /// Asks all servers for an offer.
    Discover,
    /// Takes this server's offer.
    Request(&'a str),
    /// Asks for more time: this server, or all.
    Renew(Option<&'a str>),
    /// Gives the lease back. The server's answer isn't waited for.
    Release(&'a str),
}

/// Reads a packet; `None` if it isn't an answer to the client's message.
type Read<'a> = Box<dyn Fn(&[u8]) -> Option<Result<Grant, Error>> + 'a>;

/// A message that is ready to be sent.
pub(crate) struct Question<'a> {
    /// Receives the answers.
    pub(crate) socket: Socket,
    /// Sends the message, if `socket` doesn't.
    pub(crate) sender: Option<Socket>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) read: Read<'a>,
}

/// The error of a server that refuses, for this reason.
pub(crate) fn refused(why: impl Display) -> Error {
    let msg = format!("the DHCP server refuses: {why}");
    Error::new(code::SERVER_REFUSED, msg)
}
