//! DHCP (RFC 2131): from DISCOVER to ACK, renewal, and release.
//!
//! A client without an address sets the broadcast flag: interfaces of ipvlan share one hardware
//! address, so only what goes to all of them reaches the right one.

use std::net::Ipv4Addr;
use std::time::Instant;

use cni::{Dns, Error, Object, code};
use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode, UnknownOption};
use dhcproto::{Decodable, Encodable};
use ipnet::Ipv4Net;

use crate::exchange::{other_address, refused};
use crate::socket::{CLIENT, SERVER, Socket, io_error};
use crate::{Client, Exchange, Grant, Lease};

/// The lease time of a server that doesn't say one, in seconds: that of the reference plugin.
const DEFAULT_SECONDS: u32 = 3600;

/// Shortest message, in bytes: relays of BOOTP drop shorter ones (RFC 1542, section 2.1).
const SHORTEST: usize = 300;

/// Number of refusals after which no other offer is asked for. A server may offer one address to
/// several clients at once, and refuses all but the first (RFC 2131, section 3.1, item 4).
const MOST_REFUSALS: usize = 5;

impl Exchange<'_> {
    /// Asks for a lease: of the wanted address, or of any.
    pub(crate) fn acquire_v4(&self, wanted: Ipv4Addr) -> Result<Grant, Error> {
        let mut refusals = 0;
        loop {
            match self.acquire_once(wanted) {
                Err(error)
                    if error.code == code::SERVER_REFUSED
                        && refusals < MOST_REFUSALS
                        && Instant::now() < self.until =>
                {
                    refusals += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// One DISCOVER, and the REQUEST of what is offered.
    fn acquire_once(&self, wanted: Ipv4Addr) -> Result<Grant, Error> {
        let mut socket = Socket::packet(self.link).map_err(io_error)?;
        let mut discover = self.message(MessageType::Discover);
        if !wanted.is_unspecified() {
            let option = DhcpOption::RequestedIpAddress(wanted);
            discover.opts_mut().insert(option);
        }
        let mut other = None;
        let offer = socket.ask(&encoded(&discover), self.until, |packet| {
            let offer = answer_to(&discover, packet)?;
            let offered = offer.yiaddr();
            if !offer.opts().has_msg_type(MessageType::Offer) {
                return None;
            }
            if !wanted.is_unspecified() && wanted != offered {
                other = Some(offered);
                return None;
            }
            Some((offered, server_of(&offer)?))
        });
        let (offered, server) = offer.map_err(|error| other.map_or(error, other_address))?;
        let mut request = self.message(MessageType::Request);
        let options = request.opts_mut();
        options.insert(DhcpOption::RequestedIpAddress(offered));
        options.insert(DhcpOption::ServerIdentifier(server));
        self.requested(&mut socket, &request)
    }

    /// Asks for more time: this server, or all.
    pub(crate) fn renew_v4(&self, ip: Ipv4Addr, server: Option<&str>) -> Result<Grant, Error> {
        let server = server.and_then(|server| server.parse().ok());
        let to = (server.unwrap_or(Ipv4Addr::BROADCAST), SERVER);
        let socket = Socket::udp(self.link, (ip, CLIENT).into(), to.into());
        let mut socket = socket.map_err(io_error)?;
        let mut request = self.message(MessageType::Request);
        request.set_ciaddr(ip).set_flags(Flags::default());
        self.requested(&mut socket, &request)
    }

    /// Tells the server that the lease isn't needed. There is no answer. All hosts get the message:
    /// the interface may be gone before the kernel knows the server's hardware address.
    pub(crate) fn release_v4(&self, lease: &Lease, ip: Ipv4Addr) -> Result<(), Error> {
        let Ok(server) = lease.server.parse() else {
            return Ok(());
        };
        let mut release = self.message(MessageType::Release);
        release.set_ciaddr(ip).set_flags(Flags::default());
        let options = release.opts_mut();
        options.insert(DhcpOption::ServerIdentifier(server));
        let mut socket = Socket::packet(self.link).map_err(io_error)?;
        socket.send(&encoded(&release)).map_err(io_error)
    }

    /// Sends a REQUEST, and reads the server's decision.
    fn requested(&self, socket: &mut Socket, request: &Message) -> Result<Grant, Error> {
        socket.ask(&encoded(request), self.until, |packet| {
            let answer = answer_to(request, packet)?;
            match answer.opts().msg_type()? {
                MessageType::Ack => Some(Ok(granted(self.client, &answer))),
                MessageType::Nak => Some(Err(refused(reason(&answer)))),
                _ => None,
            }
        })?
    }

    /// A message of the client.
    fn message(&self, kind: MessageType) -> Message {
        let mut message = Message::default();
        let mac = self.link.interface.mac.unwrap_or_default();
        message
            .set_chaddr(&mac.octets())
            .set_flags(Flags::default().set_broadcast());
        let options = message.opts_mut();
        options.insert(DhcpOption::MessageType(kind));
        options.insert(DhcpOption::ClientIdentifier(self.client.id()));
        if kind != MessageType::Release {
            let numbers = self.client.request.iter().map(|number| (*number).into());
            options.insert(DhcpOption::ParameterRequestList(numbers.collect()));
            for (number, value) in &self.client.provide {
                let option = UnknownOption::new((*number).into(), value.clone().into_bytes());
                options.insert(DhcpOption::Unknown(option));
            }
        }
        message
    }
}

/// The bytes of a message, padded.
fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = message.to_vec().expect("its options have their lengths");
    bytes.resize(bytes.len().max(SHORTEST), 0);
    bytes
}

/// The answer in a packet, if it is one to this message.
fn answer_to(message: &Message, packet: &[u8]) -> Option<Message> {
    // All clients of the link get all answers: another client's isn't decoded.
    if packet.get(4..8)? != message.xid().to_be_bytes() {
        return None;
    }
    let answer = Message::from_bytes(packet).ok()?;
    let is_answer = answer.opcode() == Opcode::BootReply && answer.chaddr() == message.chaddr();
    is_answer.then_some(answer)
}

fn server_of(answer: &Message) -> Option<Ipv4Addr> {
    match answer.opts().get(OptionCode::ServerIdentifier)? {
        DhcpOption::ServerIdentifier(server) => Some(*server),
        _ => None,
    }
}

/// The reason that a server has for its refusal.
fn reason(answer: &Message) -> String {
    match answer.opts().get(OptionCode::Message) {
        Some(DhcpOption::Message(reason)) => reason.clone(),
        _ => "it says no reason".to_owned(),
    }
}

/// What an ACK grants.
///
/// The routes are the classless ones, and with them no others (RFC 3442); else the static ones, and
/// the default route.
fn granted(client: &Client, ack: &Message) -> Grant {
    let (mut seconds, mut renew, mut rebind) = (DEFAULT_SECONDS, None, None);
    let (mut prefix_len, mut router, mut mtu) = (32, None, None);
    let (mut classless, mut classful) = (Vec::new(), Vec::new());
    let mut dns = Dns::default();
    for (_, option) in ack.opts().iter() {
        match option {
            DhcpOption::AddressLeaseTime(time) => seconds = *time,
            DhcpOption::Renewal(time) => renew = Some(*time),
            DhcpOption::Rebinding(time) => rebind = Some(*time),
            DhcpOption::SubnetMask(mask) => {
                prefix_len = ipnet::ipv4_mask_to_prefix(*mask).unwrap_or(prefix_len);
            }
            DhcpOption::Router(routers) => router = routers.first().copied(),
            DhcpOption::InterfaceMtu(bytes) => mtu = Some(*bytes),
            DhcpOption::ClasslessStaticRoute(all) => classless.clone_from(all),
            DhcpOption::StaticRoutingTable(all) => {
                let all = all.iter();
                classful = all.map(|(to, by)| (of_its_class(*to), *by)).collect();
            }
            DhcpOption::DomainNameServer(servers) => {
                dns.nameservers = servers.iter().map(ToString::to_string).collect();
            }
            DhcpOption::DomainName(domain) => {
                domain.trim_end_matches('\0').clone_into(&mut dns.domain);
            }
            DhcpOption::DomainSearch(names) => {
                dns.search = names.iter().map(search_domain).collect();
            }
            _ => {}
        }
    }
    if classless.is_empty() {
        let default = router.map(|router| (Ipv4Net::default(), router));
        classless = classful.into_iter().chain(default).collect();
    }
    let server = server_of(ack).unwrap_or(ack.siaddr()).to_string();
    let times = (seconds, renew, rebind);
    Grant {
        lease: Lease::new(ack.yiaddr().into(), server, client, times),
        prefix_len,
        gateway: router.map(Into::into),
        routes: classless
            .into_iter()
            .map(|(to, by)| route(to, by, mtu))
            .collect(),
        dns,
    }
}

/// A route as results have them. A destination on the link has the kernel's scope for that, as the
/// reference plugin writes it.
fn route(to: Ipv4Net, gateway: Ipv4Addr, mtu: Option<u16>) -> Object {
    const LINK: u8 = 253;
    let mut route = Object::new();
    route.set("dst", &to.to_string());
    route.set("gw", &gateway.to_string());
    if gateway.is_unspecified() {
        route.set("scope", &LINK);
    }
    if let Some(mtu) = mtu {
        route.set("mtu", &mtu);
    }
    route
}

/// The network of an address by its class, as option 33 means it.
fn of_its_class(ip: Ipv4Addr) -> Ipv4Net {
    let prefix_len = match ip.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    };
    Ipv4Net::new_assert(ip, prefix_len).trunc()
}

/// A name of a search list, without the dot of the root.
pub(crate) fn search_domain(name: &impl ToString) -> String {
    name.to_string().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
