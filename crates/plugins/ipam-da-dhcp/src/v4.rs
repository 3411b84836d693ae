//! DHCP (RFC 2131): the messages from DISCOVER to ACK, of renewal, and of release.
//!
//! A client without an address sets the broadcast flag: interfaces of ipvlan share one hardware
//! address, so only what goes to all of them reaches the right one.

use std::io;
use std::net::Ipv4Addr;

use cni::{Dns, Error, Object};
use dhcproto::v4::borrowed::{DhcpOption as RawOption, DhcpOptionIterator};
use dhcproto::v4::{
    DhcpOption, Flags, Message, MessageType, Opcode, OptionCode, UnknownOption,
    encode_long_opt_bytes,
};
use dhcproto::{Decodable, Encodable, Encoder};
use ipnet::Ipv4Net;

use crate::lease::texts;
use crate::question::{Purpose, Question, refused};
use crate::socket::{CLIENT, SERVER, Socket};
use crate::{Client, Grant, Lease, Link};

/// The lease time of a server that doesn't say one, in seconds: that of the reference plugin.
const DEFAULT_SECONDS: u32 = 3600;

/// Shortest message, in bytes: relays of BOOTP drop shorter ones (RFC 1542, section 2.1).
const SHORTEST: usize = 300;

/// A message about an address, which is unspecified for any, and the socket for it.
pub(crate) fn question<'a>(
    link: &Link,
    client: &'a Client,
    purpose: Purpose<'_>,
    ip: Ipv4Addr,
) -> io::Result<Question<'a>> {
    // A server broadcasts its refusal of a renewal, which a socket of UDP at the address wouldn't
    // receive (RFC 2131, section 4.1).
    let socket = Socket::packet(link)?;
    let sender = match purpose {
        Purpose::Renew(server) => {
            let server = server.and_then(|server| server.parse().ok());
            let to = (server.unwrap_or(Ipv4Addr::BROADCAST), SERVER);
            Some(Socket::udp(link, (ip, CLIENT).into(), to.into())?)
        }
        // A release, too: the interface may be gone before the kernel knows the server's hardware
        // address.
        _ => None,
    };
    let mut message = message(client, purpose, ip);
    message.set_chaddr(&link.interface.mac.unwrap_or_default().octets());
    let mut bytes = message.to_vec().map_err(io::Error::other)?;
    bytes.resize(bytes.len().max(SHORTEST), 0);
    Ok(Question {
        socket,
        sender,
        bytes,
        read: Box::new(move |packet| answer(client, &message, packet)),
    })
}

fn message(client: &Client, purpose: Purpose<'_>, ip: Ipv4Addr) -> Message {
    let (kind, server) = match purpose {
        Purpose::Discover => (MessageType::Discover, None),
        Purpose::Request(server) => (MessageType::Request, Some(server)),
        Purpose::Renew(_) => (MessageType::Request, None),
        Purpose::Release(server) => (MessageType::Release, Some(server)),
    };
    let has_address = matches!(purpose, Purpose::Renew(_) | Purpose::Release(_));
    let mut message = Message::default();
    if has_address {
        message.set_ciaddr(ip);
    } else {
        message.set_flags(Flags::default().set_broadcast());
    }
    let options = message.opts_mut();
    options.insert(DhcpOption::MessageType(kind));
    options.insert(DhcpOption::ClientIdentifier(client.id()));
    if !has_address && !ip.is_unspecified() {
        options.insert(DhcpOption::RequestedIpAddress(ip));
    }
    if let Some(Ok(server)) = server.map(str::parse) {
        options.insert(DhcpOption::ServerIdentifier(server));
    }
    if kind != MessageType::Release {
        let numbers = client.request.iter().map(|number| (*number).into());
        options.insert(DhcpOption::ParameterRequestList(numbers.collect()));
        // A whole frame, in bytes.
        options.insert(DhcpOption::MaxMessageSize(1500));
        for (number, value) in &client.provide {
            let option = UnknownOption::new((*number).into(), value.clone().into_bytes());
            options.insert(DhcpOption::Unknown(option));
        }
    }
    message
}

/// The decision of a server in a packet, if it is an answer to this message.
fn answer(client: &Client, message: &Message, packet: &[u8]) -> Option<Result<Grant, Error>> {
    // All clients of the link get all answers: another client's isn't decoded.
    if packet.get(4..8)? != message.xid().to_be_bytes() {
        return None;
    }
    let answer = decoded(packet)?;
    if answer.opcode() != Opcode::BootReply || answer.chaddr() != message.chaddr() {
        return None;
    }
    match (message.opts().msg_type()?, answer.opts().msg_type()?) {
        (MessageType::Discover, MessageType::Offer) | (MessageType::Request, MessageType::Ack) => {
            Some(Ok(granted(client, &answer)))
        }
        (_, MessageType::Nak) => {
            let reason = match answer.opts().get(OptionCode::Message) {
                Some(DhcpOption::Message(reason)) => reason,
                _ => "it says no reason",
            };
            Some(Err(refused(reason)))
        }
        _ => None,
    }
}

/// A message, whose header has 240 bytes (RFC 2131, section 2), with the options of all its places,
/// the parts of each joined in their order (RFC 3396, section 7). An option that can't be read is
/// left out.
fn decoded(packet: &[u8]) -> Option<Message> {
    let (header, options) = packet.split_at_checked(240)?;
    let mut message = Message::from_bytes(header).ok()?;
    let mut all: Vec<_> = DhcpOptionIterator::new(options).collect();
    // Option 52 says where further ones are: 1 for `file`, 2 for `sname`, 3 for both.
    let mut overload = all.iter().filter(|part| u8::from(part.code()) == 52);
    let overload = overload.find_map(|part| part.data().first().copied());
    for (place, bytes) in [(1, 108..236), (2, 44..108)] {
        if overload.is_some_and(|places| places & place != 0) {
            all.extend(DhcpOptionIterator::new(&header[bytes]));
        }
    }
    all.sort_by_key(|part| part.code());
    for parts in all.chunk_by(|one, next| one.code() == next.code()) {
        let (value, mut bytes) = (parts.iter().map(RawOption::data), Vec::new());
        let value = value.collect::<Vec<_>>().concat();
        encode_long_opt_bytes(parts[0].code(), &value, &mut Encoder::new(&mut bytes)).ok()?;
        if let Ok(option) = DhcpOption::from_bytes(&bytes) {
            message.opts_mut().insert(option);
        }
    }
    Some(message)
}

/// What an ACK grants, or an OFFER.
///
/// The routes are the classless ones, and with them no others (RFC 3442); else the static ones, and
/// the default route.
fn granted(client: &Client, ack: &Message) -> Grant {
    let mut times = (DEFAULT_SECONDS, None, None);
    let (mut prefix_len, mut router, mut mtu) = (32, None, None);
    let (mut classless, mut classful) = (Vec::new(), Vec::new());
    let mut dns = Dns::default();
    let mut server = ack.siaddr();
    for (_, option) in ack.opts().iter() {
        match option {
            DhcpOption::ServerIdentifier(identifier) => server = *identifier,
            DhcpOption::AddressLeaseTime(time) => times.0 = *time,
            DhcpOption::Renewal(time) => times.1 = Some(*time),
            DhcpOption::Rebinding(time) => times.2 = Some(*time),
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
            DhcpOption::DomainNameServer(servers) => dns.nameservers = texts(servers),
            DhcpOption::DomainName(name) => dns.domain = name.trim_end_matches('\0').into(),
            DhcpOption::DomainSearch(names) => dns.search = texts(names),
            _ => {}
        }
    }
    if classless.is_empty() {
        let default = router.map(|router| (Ipv4Net::default(), router));
        classless = classful.into_iter().chain(default).collect();
    }
    let to_route = |(to, by)| route(to, by, mtu);
    Grant {
        lease: Lease::new(ack.yiaddr().into(), server.to_string(), client, times),
        prefix_len,
        gateway: router.map(Into::into),
        routes: classless.into_iter().map(to_route).collect(),
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

#[cfg(test)]
mod tests;
