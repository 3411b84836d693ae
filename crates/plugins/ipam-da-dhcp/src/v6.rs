//! DHCPv6 (RFC 8415): from SOLICIT to REPLY, renewal, and release of one address.
//!
//! A server says neither a prefix's length nor a router: those are the router's announcements,
//! which the kernel follows.

use std::io;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use dhcproto::v6::{
    DhcpOption, DhcpOptions, IAAddr, IANA, Message, MessageType, ORO, OptionCode, Status,
};
use dhcproto::{Decodable, Encodable};

use crate::exchange::{Failure, Granted, ask};
use crate::identity::{Identity, from_hex, hex};
use crate::lease::{Lease, Times};
use crate::link::Link;
use crate::socket::Socket;
use crate::v4::search_domain;
use crate::{Grant, Settings};

/// Longest wait for the answer to a release.
const MOST_FOR_RELEASE: Duration = Duration::from_millis(300);

/// Asks for a lease: of the wanted address, or of any.
pub(crate) fn acquire(
    link: &Link,
    settings: &Settings,
    wanted: Option<Ipv6Addr>,
    until: Instant,
) -> Granted {
    let mut client = Client::open(link, settings.identity.duid(), until)?;
    let solicit = client.message(MessageType::Solicit, None, wanted);
    let (server, offered) = client.ask(&solicit, MessageType::Advertise, until)?;
    let offered = offered?;
    if let Some(wanted) = wanted.filter(|wanted| *wanted != offered.addr) {
        tracing::debug!(%wanted, offered = %offered.addr, "another address is offered");
        return Err(Failure::OtherAddress(offered.addr.into()));
    }
    let request = client.message(MessageType::Request, Some(&server), Some(offered.addr));
    client.granted(settings, &request, until)
}

/// Asks for more time: the server with this DUID, or all.
pub(crate) fn renew(
    link: &Link,
    settings: &Settings,
    (address, server): (Ipv6Addr, Option<Vec<u8>>),
    until: Instant,
) -> Granted {
    let mut client = Client::open(link, settings.identity.duid(), until)?;
    let kind = match server {
        Some(_) => MessageType::Renew,
        None => MessageType::Rebind,
    };
    let renew = client.message(kind, server.as_deref(), Some(address));
    client.granted(settings, &renew, until)
}

/// Tells the server that the lease isn't needed.
pub(crate) fn release(link: &Link, lease: &Lease, address: Ipv6Addr) -> Result<(), Failure> {
    let until = Instant::now() + MOST_FOR_RELEASE;
    let (Some(duid), Some(server)) = (from_hex(&lease.client_id), from_hex(&lease.server)) else {
        return Ok(());
    };
    let mut client = Client::open(link, duid, until)?;
    let release = client.message(MessageType::Release, Some(&server), Some(address));
    match client.ask(&release, MessageType::Reply, until) {
        // It may come without an address, and too late.
        Ok(_) | Err(Failure::Unanswered) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// A client on a link.
struct Client {
    socket: Socket,
    duid: Vec<u8>,
}

/// The address of an answer, with the times of its association.
struct Offered {
    addr: Ipv6Addr,
    times: Times,
    message: Message,
}

impl Client {
    fn open(link: &Link, duid: Vec<u8>, until: Instant) -> io::Result<Self> {
        let mut socket = Socket::udp6(link)?;
        socket.wait_for_own_address(until)?;
        Ok(Self { socket, duid })
    }

    /// A message about the one address of this client.
    fn message(
        &self,
        kind: MessageType,
        server: Option<&[u8]>,
        address: Option<Ipv6Addr>,
    ) -> Message {
        let mut message = Message::new(kind);
        let mut association = DhcpOptions::new();
        if let Some(addr) = address {
            association.insert(DhcpOption::IAAddr(IAAddr {
                addr,
                preferred_life: 0,
                valid_life: 0,
                opts: DhcpOptions::new(),
            }));
        }
        let options = message.opts_mut();
        options.insert(DhcpOption::ClientId(self.duid.clone()));
        if let Some(server) = server {
            options.insert(DhcpOption::ServerId(server.to_vec()));
        }
        options.insert(DhcpOption::ElapsedTime(0));
        options.insert(DhcpOption::IANA(IANA {
            id: Identity::IAID,
            t1: 0,
            t2: 0,
            opts: association,
        }));
        let opts = vec![OptionCode::DomainNameServers, OptionCode::DomainSearchList];
        options.insert(DhcpOption::ORO(ORO { opts }));
        message
    }

    /// Sends a message; returns the answering server's DUID, and what it offers.
    fn ask(
        &mut self,
        message: &Message,
        answer: MessageType,
        until: Instant,
    ) -> Result<(Vec<u8>, Result<Offered, Failure>), Failure> {
        let bytes = message.to_vec().map_err(io::Error::other)?;
        let duid = &self.duid;
        ask(&mut self.socket, &bytes, until, |packet| {
            let received = Message::from_bytes(packet).ok()?;
            let options = received.opts();
            let is_ours = matches!(options.get(OptionCode::ClientId),
                Some(DhcpOption::ClientId(id)) if id == duid);
            let is_answer =
                is_ours && received.xid() == message.xid() && received.msg_type() == answer;
            let Some(DhcpOption::ServerId(server)) = options.get(OptionCode::ServerId) else {
                return None;
            };
            is_answer.then(|| (server.clone(), offered(&received)))
        })
    }

    /// Sends a message, and reads what the server's reply grants.
    fn granted(&mut self, settings: &Settings, message: &Message, until: Instant) -> Granted {
        let (server, offered) = self.ask(message, MessageType::Reply, until)?;
        let offered = offered?;
        let mut grant = Grant::new(
            (offered.addr.into(), 128),
            hex(&server),
            (&settings.identity, &self.duid),
            offered.times,
        );
        for option in offered.message.opts().iter() {
            match option {
                DhcpOption::DomainNameServers(servers) => {
                    grant.dns.nameservers = servers.iter().map(ToString::to_string).collect();
                }
                DhcpOption::DomainSearchList(names) => {
                    grant.dns.search = names.iter().map(search_domain).collect();
                }
                _ => {}
            }
        }
        Ok(grant)
    }
}

/// The address that an answer has for this client, with a lifetime.
fn offered(message: &Message) -> Result<Offered, Failure> {
    let association = match message.opts().get(OptionCode::IANA) {
        Some(DhcpOption::IANA(association)) => Some(association),
        _ => None,
    };
    let inner = association.map(|association| &association.opts);
    let address = match inner.and_then(|options| options.get(OptionCode::IAAddr)) {
        Some(DhcpOption::IAAddr(address)) if address.valid_life > 0 => address,
        _ => return Err(Failure::Refused(reason([inner, Some(message.opts())]))),
    };
    let time = |seconds: Option<u32>| seconds.filter(|seconds| *seconds > 0);
    let times = Times::new(
        address.valid_life,
        time(association.map(|association| association.t1)),
        time(association.map(|association| association.t2)),
    );
    Ok(Offered {
        addr: address.addr,
        times,
        message: message.clone(),
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
