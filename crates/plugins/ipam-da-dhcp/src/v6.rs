//! DHCPv6 (RFC 8415): the messages from SOLICIT to REPLY, of renewal, and of release of one address.
//!
//! A server says neither a prefix's length nor a router: those are the router's announcements,
//! which the kernel follows.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};

use cni::{Dns, Error};
use dhcproto::v6::{
    DhcpOption, DhcpOptions, IAAddr, IANA, Message, MessageType, ORO, OptionCode, Status,
};
use dhcproto::{Decodable, Encodable};

use crate::lease::texts;
use crate::question::{Purpose, Question, refused};
use crate::socket::Socket;
use crate::{Client, Grant, Lease, Link};

const CLIENT: u16 = 546;
const SERVER: u16 = 547;

/// All servers and relays on the link (RFC 8415, section 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// The number of a client's only identity association.
const IAID: u32 = 1;

/// A message about an address, which is unspecified for any, and the socket for it.
pub(crate) fn question<'a>(
    link: &Link,
    client: &'a Client,
    purpose: Purpose<'_>,
    ip: Ipv6Addr,
) -> io::Result<Question<'a>> {
    let to = SocketAddrV6::new(SERVERS, SERVER, 0, link.interface.index);
    let message = message(client, purpose, ip);
    Ok(Question {
        // The kernel chooses the link's own address.
        socket: Socket::udp(link, (Ipv6Addr::UNSPECIFIED, CLIENT).into(), to.into())?,
        sender: None,
        bytes: message.to_vec().map_err(io::Error::other)?,
        read: Box::new(move |packet| answer(client, &message, packet)),
    })
}

fn message(client: &Client, purpose: Purpose<'_>, addr: Ipv6Addr) -> Message {
    let (kind, server) = match purpose {
        Purpose::Discover => (MessageType::Solicit, None),
        Purpose::Request(server) => (MessageType::Request, Some(server)),
        Purpose::Renew(None) => (MessageType::Rebind, None),
        Purpose::Renew(server) => (MessageType::Renew, server),
        Purpose::Release(server) => (MessageType::Release, Some(server)),
    };
    let mut message = Message::new(kind);
    let mut association = DhcpOptions::new();
    if !addr.is_unspecified() {
        association.insert(DhcpOption::IAAddr(IAAddr {
            addr,
            preferred_life: 0,
            valid_life: 0,
            opts: DhcpOptions::new(),
        }));
    }
    let options = message.opts_mut();
    options.insert(DhcpOption::ClientId(client.id()));
    if let Some(Ok(server)) = server.map(hex::decode) {
        options.insert(DhcpOption::ServerId(server));
    }
    options.insert(DhcpOption::ElapsedTime(0));
    options.insert(DhcpOption::IANA(IANA {
        id: IAID,
        t1: 0,
        t2: 0,
        opts: association,
    }));
    let opts = vec![OptionCode::DomainNameServers, OptionCode::DomainSearchList];
    options.insert(DhcpOption::ORO(ORO { opts }));
    message
}

/// The decision of a server in a packet, if it is an answer to this message.
fn answer(client: &Client, message: &Message, packet: &[u8]) -> Option<Result<Grant, Error>> {
    let answer = Message::from_bytes(packet).ok()?;
    let kind = match message.msg_type() {
        MessageType::Solicit => MessageType::Advertise,
        _ => MessageType::Reply,
    };
    let options = answer.opts();
    let own_id = message.opts().get(OptionCode::ClientId);
    let is_own = answer.xid() == message.xid() && options.get(OptionCode::ClientId) == own_id;
    match options.get(OptionCode::ServerId) {
        Some(DhcpOption::ServerId(server)) if is_own && answer.msg_type() == kind => {
            Some(granted(client, hex::encode(server), options))
        }
        _ => None,
    }
}

/// The address in an answer's options, with a lifetime, and the name servers.
fn granted(client: &Client, server: String, options: &DhcpOptions) -> Result<Grant, Error> {
    let of_association = options.iter().flat_map(|option| match option {
        DhcpOption::IANA(association) => association.opts.iter().collect(),
        _ => Vec::new(),
    });
    let (mut address, mut times) = (None, (0, None, None));
    let mut why = "it says no reason, and gives no address".to_owned();
    let mut dns = Dns::default();
    for option in options.iter().chain(of_association) {
        match option {
            DhcpOption::IANA(association) => {
                times = (0, Some(association.t1), Some(association.t2));
            }
            DhcpOption::IAAddr(given) if given.valid_life > 0 => {
                address = Some(given.addr);
                times.0 = given.valid_life;
            }
            DhcpOption::StatusCode(code) if code.status != Status::Success => {
                why = format!("{:?} {}", code.status, code.msg);
            }
            DhcpOption::DomainNameServers(servers) => dns.nameservers = texts(servers),
            DhcpOption::DomainSearchList(names) => dns.search = texts(names),
            _ => {}
        }
    }
    let address = address.ok_or_else(|| refused(why))?;
    Ok(Grant {
        lease: Lease::new(address.into(), server, client, times),
        prefix_len: 128,
        gateway: None,
        routes: Vec::new(),
        dns,
    })
}
