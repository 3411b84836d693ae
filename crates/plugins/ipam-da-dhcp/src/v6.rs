//! DHCPv6 (RFC 8415): from SOLICIT to REPLY, renewal, and release of one address.
//!
//! A server says neither a prefix's length nor a router: those are the router's announcements,
//! which the kernel follows.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV6};

use cni::{Dns, Error};
use dhcproto::v6::{
    DhcpOption, DhcpOptions, IAAddr, IANA, Message, MessageType, ORO, OptionCode, Status,
};
use dhcproto::{Decodable, Encodable};

use crate::client::{from_hex, hex};
use crate::exchange::refused;
use crate::socket::{Socket, io_error};
use crate::v4::search_domain;
use crate::{Client, Exchange, Grant, Lease};

const CLIENT: u16 = 546;
const SERVER: u16 = 547;

/// All servers and relays on the link (RFC 8415, section 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// The number of a client's only identity association.
const IAID: u32 = 1;

impl Exchange<'_> {
    /// Asks for a lease: of the wanted address, or of any.
    pub(crate) fn acquire_v6(&self, wanted: IpAddr) -> Result<Grant, Error> {
        let solicit = message(self.client, MessageType::Solicit, wanted, None);
        let offer = self.ask(&solicit)?.of_wanted(wanted)?;
        let Lease {
            address, server, ..
        } = &offer.lease;
        self.ask(&message(
            self.client,
            MessageType::Request,
            *address,
            Some(server),
        ))
    }

    /// Asks for more time: the server with this DUID, or all.
    pub(crate) fn renew_v6(&self, address: IpAddr, server: Option<&str>) -> Result<Grant, Error> {
        let kind = match server {
            Some(_) => MessageType::Renew,
            None => MessageType::Rebind,
        };
        self.ask(&message(self.client, kind, address, server))
    }

    /// Tells the server that the lease isn't needed. Its answer isn't waited for.
    pub(crate) fn release_v6(&self, lease: &Lease) -> Result<(), Error> {
        let (kind, server) = (MessageType::Release, Some(lease.server.as_str()));
        let release = message(self.client, kind, lease.address, server);
        let sent = encoded(&release).and_then(|release| self.socket_v6()?.send(&release));
        sent.map_err(io_error)
    }

    /// A socket of the link's own address, for all servers.
    fn socket_v6(&self) -> io::Result<Socket> {
        let to = SocketAddrV6::new(SERVERS, SERVER, 0, self.link.interface.index);
        Socket::udp(self.link, (Ipv6Addr::UNSPECIFIED, CLIENT).into(), to.into())
    }

    /// Sends a message; returns what the first answer of a server offers or grants.
    fn ask(&self, message: &Message) -> Result<Grant, Error> {
        let answer = match message.msg_type() {
            MessageType::Solicit => MessageType::Advertise,
            _ => MessageType::Reply,
        };
        let duid = self.client.id();
        let bytes = encoded(message).map_err(io_error)?;
        let mut socket = self.socket_v6().map_err(io_error)?;
        socket.ask(&bytes, self.until, |packet| {
            let received = Message::from_bytes(packet).ok()?;
            let options = received.opts();
            let is_ours = matches!(options.get(OptionCode::ClientId),
                Some(DhcpOption::ClientId(id)) if *id == duid);
            let is_answer = received.xid() == message.xid() && received.msg_type() == answer;
            let Some(DhcpOption::ServerId(server)) = options.get(OptionCode::ServerId) else {
                return None;
            };
            (is_ours && is_answer).then(|| granted(self.client, hex(server), options))
        })?
    }
}

/// A message about the one address of a client, which is unspecified for any, to a server.
fn message(client: &Client, kind: MessageType, address: IpAddr, server: Option<&str>) -> Message {
    let mut message = Message::new(kind);
    let mut association = DhcpOptions::new();
    if let IpAddr::V6(addr) = address
        && !addr.is_unspecified()
    {
        association.insert(DhcpOption::IAAddr(IAAddr {
            addr,
            preferred_life: 0,
            valid_life: 0,
            opts: DhcpOptions::new(),
        }));
    }
    let options = message.opts_mut();
    options.insert(DhcpOption::ClientId(client.id()));
    if let Some(server) = server.and_then(from_hex) {
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

fn encoded(message: &Message) -> io::Result<Vec<u8>> {
    message.to_vec().map_err(io::Error::other)
}

/// The address in an answer's options, with a lifetime, and the name servers.
fn granted(client: &Client, server: String, options: &DhcpOptions) -> Result<Grant, Error> {
    let association = match options.get(OptionCode::IANA) {
        Some(DhcpOption::IANA(association)) => Some(association),
        _ => None,
    };
    let inner = association.map(|association| &association.opts);
    let address = match inner.and_then(|inner| inner.get(OptionCode::IAAddr)) {
        Some(DhcpOption::IAAddr(address)) if address.valid_life > 0 => address,
        _ => return Err(refused(reason([inner, Some(options)]))),
    };
    let times = (
        address.valid_life,
        association.map(|association| association.t1),
        association.map(|association| association.t2),
    );
    let mut dns = Dns::default();
    for option in options.iter() {
        match option {
            DhcpOption::DomainNameServers(servers) => {
                dns.nameservers = servers.iter().map(ToString::to_string).collect();
            }
            DhcpOption::DomainSearchList(names) => {
                dns.search = names.iter().map(search_domain).collect();
            }
            _ => {}
        }
    }
    Ok(Grant {
        lease: Lease::new(address.addr.into(), server, client, times),
        prefix_len: 128,
        gateway: None,
        routes: Vec::new(),
        dns,
    })
}

/// The reason that a server has for giving no address: the first status of these that isn't a
/// success.
fn reason(options: [Option<&DhcpOptions>; 2]) -> String {
    let statuses = options.into_iter().flatten();
    let mut statuses = statuses.filter_map(|options| match options.get(OptionCode::StatusCode) {
        Some(DhcpOption::StatusCode(code)) if code.status != Status::Success => Some(code),
        _ => None,
    });
    match statuses.next() {
        Some(code) if code.msg.is_empty() => format!("{:?}", code.status),
        Some(code) => format!("{} ({:?})", code.msg, code.status),
        None => "it says no reason, and gives no address".to_owned(),
    }
}
