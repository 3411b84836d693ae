//! DHCP (RFC 2131): from DISCOVER to ACK, renewal, and release.
//!
//! A client without an address sets the broadcast flag: interfaces of ipvlan share one hardware
//! address, so only what goes to all of them reaches the right one.

use std::net::Ipv4Addr;
use std::time::Instant;

use cni::Dns;
use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode, UnknownOption};
use dhcproto::{Decodable, Encodable};
use ipnet::{IpNet, Ipv4Net};

use crate::exchange::{Failure, Granted, ask};
use crate::grant::GrantedRoute;
use crate::identity::from_hex;
use crate::lease::{Lease, Times};
use crate::link::Link;
use crate::settings::CLIENT_ID;
use crate::socket::Socket;
use crate::{Grant, Settings};

/// The lease time of a server that doesn't say one, in seconds: that of the reference plugin.
const DEFAULT_SECONDS: u32 = 3600;

/// Shortest message, in bytes: relays of BOOTP drop shorter ones (RFC 1542, section 2.1).
const SHORTEST: usize = 300;

/// Number of refusals after which no other offer is asked for. A server may offer one address to
/// several clients at once, and refuses all but the first (RFC 2131, section 3.1, item 4).
const MOST_REFUSALS: usize = 5;

/// Asks for a lease: of the wanted address, or of any.
pub(crate) fn acquire(
    link: &Link,
    settings: &Settings,
    wanted: Option<Ipv4Addr>,
    until: Instant,
) -> Granted {
    let mut outcome = acquire_once(link, settings, wanted, until);
    for _ in 1..MOST_REFUSALS {
        if !matches!(outcome, Err(Failure::Refused(_))) || Instant::now() >= until {
            break;
        }
        outcome = acquire_once(link, settings, wanted, until);
    }
    outcome
}

/// One DISCOVER, and the REQUEST of what is offered.
fn acquire_once(
    link: &Link,
    settings: &Settings,
    wanted: Option<Ipv4Addr>,
    until: Instant,
) -> Granted {
    let mut socket = Socket::packet(link, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)?;
    let mut discover = message(link, settings, MessageType::Discover);
    let wants = wanted.map(DhcpOption::RequestedIpAddress);
    wants.map(|option| discover.opts_mut().insert(option));
    let mut other = None;
    let offer = ask(&mut socket, &encoded(&discover), until, |packet| {
        let offer = answer_to(&discover, packet)?;
        let is_offer = offer.opts().has_msg_type(MessageType::Offer);
        let offered = offer.yiaddr();
        if is_offer && wanted.is_some_and(|wanted| wanted != offered) {
            other = Some(offered);
            return None;
        }
        (is_offer && server_of(&offer).is_some()).then_some(offer)
    });
    let offer = offer.map_err(|failure| match (failure, other) {
        (Failure::Unanswered, Some(other)) => Failure::OtherAddress(other.into()),
        (failure, _) => failure,
    })?;
    let mut request = message(link, settings, MessageType::Request);
    let options = request.opts_mut();
    options.insert(DhcpOption::RequestedIpAddress(offer.yiaddr()));
    options.insert(DhcpOption::ServerIdentifier(
        server_of(&offer).unwrap_or(Ipv4Addr::UNSPECIFIED),
    ));
    requested(&mut socket, settings, &request, until)
}

/// Asks for more time: this server, or all.
pub(crate) fn renew(
    link: &Link,
    settings: &Settings,
    (address, server): (Ipv4Addr, Option<Ipv4Addr>),
    until: Instant,
) -> Granted {
    let mut socket = match server {
        Some(server) => Socket::udp(link, address, server)?,
        None => Socket::packet(link, address, Ipv4Addr::BROADCAST)?,
    };
    let mut request = message(link, settings, MessageType::Request);
    request.set_ciaddr(address).set_flags(Flags::default());
    requested(&mut socket, settings, &request, until)
}

/// Tells the server that the lease isn't needed. There is no answer.
pub(crate) fn release(link: &Link, lease: &Lease, address: Ipv4Addr) -> Result<(), Failure> {
    let Ok(server) = lease.server.parse() else {
        return Ok(());
    };
    let mut release = Message::default();
    release.set_chaddr(&link.mac).set_ciaddr(address);
    let options = release.opts_mut();
    options.insert(DhcpOption::MessageType(MessageType::Release));
    options.insert(DhcpOption::ServerIdentifier(server));
    let client_id = from_hex(&lease.client_id).unwrap_or_default();
    options.insert(DhcpOption::ClientIdentifier(client_id));
    Ok(Socket::packet(link, address, server)?.send(&encoded(&release))?)
}

/// Sends a REQUEST, and reads the server's decision.
fn requested(
    socket: &mut Socket,
    settings: &Settings,
    request: &Message,
    until: Instant,
) -> Granted {
    ask(socket, &encoded(request), until, |packet| {
        let answer = answer_to(request, packet)?;
        match answer.opts().msg_type()? {
            MessageType::Ack => Some(Ok(granted(settings, &answer))),
            MessageType::Nak => Some(Err(Failure::Refused(reason(&answer)))),
            _ => None,
        }
    })?
}

/// A message of the client.
fn message(link: &Link, settings: &Settings, kind: MessageType) -> Message {
    let mut message = Message::default();
    message
        .set_chaddr(&link.mac)
        .set_flags(Flags::default().set_broadcast());
    let options = message.opts_mut();
    options.insert(DhcpOption::MessageType(kind));
    let client_id = settings.identity.client_id.clone();
    options.insert(DhcpOption::ClientIdentifier(client_id));
    if !settings.requested.is_empty() {
        let numbers = settings.requested.iter().map(|number| (*number).into());
        options.insert(DhcpOption::ParameterRequestList(numbers.collect()));
    }
    for (number, value) in &settings.provided {
        if *number != CLIENT_ID {
            let option = UnknownOption::new((*number).into(), value.clone());
            options.insert(DhcpOption::Unknown(option));
        }
    }
    message
}

/// The bytes of a message, padded.
fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = message.to_vec().expect("its options have their lengths");
    bytes.resize(bytes.len().max(SHORTEST), 0);
    bytes
}

/// The answer in a packet, if it is one to this message.
fn answer_to(message: &Message, packet: &[u8]) -> Option<Message> {
    let answer = Message::from_bytes(packet).ok()?;
    let is_answer = answer.opcode() == Opcode::BootReply
        && answer.xid() == message.xid()
        && answer.chaddr() == message.chaddr();
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
fn granted(settings: &Settings, ack: &Message) -> Grant {
    let options = ack.opts();
    let number = |code: OptionCode| match options.get(code)? {
        DhcpOption::AddressLeaseTime(seconds)
        | DhcpOption::Renewal(seconds)
        | DhcpOption::Rebinding(seconds) => Some(*seconds),
        _ => None,
    };
    let times = Times::new(
        number(OptionCode::AddressLeaseTime).unwrap_or(DEFAULT_SECONDS),
        number(OptionCode::Renewal),
        number(OptionCode::Rebinding),
    );
    let identity = &settings.identity;
    let prefix_len = match options.get(OptionCode::SubnetMask) {
        Some(DhcpOption::SubnetMask(mask)) => ipnet::ipv4_mask_to_prefix(*mask).ok(),
        _ => None,
    };
    let server = server_of(ack).unwrap_or(ack.siaddr()).to_string();
    let mut grant = Grant::new(
        (ack.yiaddr().into(), prefix_len.unwrap_or(32)),
        server,
        (identity, &identity.client_id),
        times,
    );
    let router = match options.get(OptionCode::Router) {
        Some(DhcpOption::Router(routers)) => routers.first().copied(),
        _ => None,
    };
    grant.gateway = router.map(Into::into);
    grant.routes = routes(ack, router);
    grant.dns = dns(ack);
    if let Some(DhcpOption::InterfaceMtu(mtu)) = options.get(OptionCode::InterfaceMtu) {
        grant.mtu = Some(*mtu);
    }
    grant
}

/// The routes: the classless ones, and with them no others (RFC 3442); else the static ones, and
/// the default route.
fn routes(ack: &Message, router: Option<Ipv4Addr>) -> Vec<GrantedRoute> {
    let route = |to: Ipv4Net, gateway: Ipv4Addr| GrantedRoute {
        to: IpNet::V4(to),
        gateway: gateway.into(),
    };
    if let Some(DhcpOption::ClasslessStaticRoute(all)) =
        ack.opts().get(OptionCode::ClasslessStaticRoute)
        && !all.is_empty()
    {
        return all
            .iter()
            .map(|(to, gateway)| route(*to, *gateway))
            .collect();
    }
    let all = match ack.opts().get(OptionCode::StaticRoutingTable) {
        Some(DhcpOption::StaticRoutingTable(all)) => all.as_slice(),
        _ => &[],
    };
    let classful = all
        .iter()
        .map(|(to, gateway)| route(of_its_class(*to), *gateway));
    let default = router.map(|router| route(Ipv4Net::default(), router));
    classful.chain(default).collect()
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

fn dns(ack: &Message) -> Dns {
    let mut dns = Dns::default();
    for (_, option) in ack.opts().iter() {
        match option {
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
    dns
}

/// A name of a search list, without the dot of the root.
pub(crate) fn search_domain(name: &impl ToString) -> String {
    name.to_string().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
