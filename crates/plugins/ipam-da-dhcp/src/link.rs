//! An interface of this thread's network namespace, by the kernel's routing socket.
//!
//! The end of a lease is kept at the address itself, as its valid lifetime: the kernel removes the
//! address then, whatever process lives.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, CacheInfo};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Largest part of an answer, in bytes: the kernel's own bound.
const LARGEST: usize = 32 << 10;

/// An interface.
pub struct Link {
    socket: OwnedFd,
    pub(crate) name: String,
    pub(crate) index: u32,
    /// Its hardware address.
    pub(crate) mac: Vec<u8>,
    is_up: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// The address, with the length of its subnet's prefix.
    pub net: IpNet,
    /// The seconds until the kernel removes it; `u32::MAX` for never.
    pub valid: u32,
}

impl Link {
    /// Opens the interface of this name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown whether there is one.
    pub fn open(name: &str) -> io::Result<Option<Self>> {
        let socket = socket_with(
            rustix::net::AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0: routing.
            None,
        )?;
        let mut request = LinkMessage::default();
        request.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        let answers = match request_of(&socket, Message::GetLink(request), NLM_F_ACK) {
            Err(error) if error.raw_os_error() == Some(NO_DEVICE) => return Ok(None),
            answers => answers?,
        };
        let link = answers.into_iter().find_map(|answer| match answer {
            Message::NewLink(link) => Some(link),
            _ => None,
        });
        let link = link.ok_or_else(|| io::Error::other("the kernel answers with no link"))?;
        let mac = link.attributes.into_iter().find_map(|one| match one {
            LinkAttribute::Address(mac) => Some(mac),
            _ => None,
        });
        Ok(Some(Self {
            socket,
            name: name.to_owned(),
            index: link.header.index,
            mac: mac.unwrap_or_default(),
            is_up: link.header.flags.contains(LinkFlags::Up),
        }))
    }

    /// Sets the interface up, if it is down: some main plugins do so only after the IPAM plugin.
    pub(crate) fn set_up(&self) -> io::Result<()> {
        if self.is_up {
            return Ok(());
        }
        let mut request = LinkMessage::default();
        request.header.index = self.index;
        request.header.flags = LinkFlags::Up;
        request.header.change_mask = LinkFlags::Up;
        self.request(Message::SetLink(request), NLM_F_ACK).map(drop)
    }

    /// Its addresses.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn addresses(&self) -> io::Result<Vec<LinkAddress>> {
        let request = Message::GetAddress(AddressMessage::default());
        let answers = self.request(request, NLM_F_DUMP)?.into_iter();
        Ok(answers
            .filter_map(|answer| match answer {
                Message::NewAddress(address) if address.header.index == self.index => {
                    address_of(&address)
                }
                _ => None,
            })
            .collect())
    }

    /// Adds an address, or sets the time after which the kernel removes it.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn put(&self, address: LinkAddress) -> io::Result<()> {
        let mut request = self.address_message(address.net);
        let mut times = CacheInfo::default();
        (times.ifa_preferred, times.ifa_valid) = (address.valid, address.valid);
        request.attributes.push(AddressAttribute::CacheInfo(times));
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.request(Message::NewAddress(request), flags).map(drop)
    }

    /// Removes an address. The link stays.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn remove(&self, net: IpNet) -> io::Result<()> {
        let request = Message::DelAddress(self.address_message(net));
        self.request(request, NLM_F_ACK).map(drop)
    }

    /// Adds a route through this interface, or replaces it. Without a gateway, the destination is
    /// on the link.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn put_route(
        &self,
        to: IpNet,
        gateway: Option<IpAddr>,
        metric: Option<u32>,
    ) -> io::Result<()> {
        let mut request = RouteMessage::default();
        request.header = RouteHeader {
            address_family: family(to.addr()),
            destination_prefix_length: to.prefix_len(),
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Boot,
            kind: RouteType::Unicast,
            scope: match gateway {
                Some(_) => RouteScope::Universe,
                None => RouteScope::Link,
            },
            ..RouteHeader::default()
        };
        let destination = to.network().into();
        request.attributes = vec![
            RouteAttribute::Destination(destination),
            RouteAttribute::Oif(self.index),
        ];
        let gateway = gateway.map(|gateway| RouteAttribute::Gateway(gateway.into()));
        request.attributes.extend(gateway);
        request
            .attributes
            .extend(metric.map(RouteAttribute::Priority));
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.request(Message::NewRoute(request), flags).map(drop)
    }

    fn address_message(&self, net: IpNet) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = family(net.addr());
        message.header.prefix_len = net.prefix_len();
        message.header.index = self.index;
        message.attributes = vec![
            AddressAttribute::Local(net.addr()),
            AddressAttribute::Address(net.addr()),
        ];
        message
    }

    fn request(&self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        request_of(&self.socket, message, flags)
    }
}

/// `ENODEV`: there is no interface of this name.
const NO_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();

/// Sends a request to the kernel; returns all parts of its answer.
fn request_of(socket: &OwnedFd, message: Message, flags: u16) -> io::Result<Vec<Message>> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    request.finalize();
    let mut buffer = vec![0; request.buffer_len()];
    request.serialize(&mut buffer);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &buffer, SendFlags::empty(), &kernel)?;
    let mut answers = Vec::new();
    let mut buffer = vec![0; LARGEST];
    loop {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let part = NetlinkMessage::<Message>::deserialize(rest).map_err(io::Error::other)?;
            match part.payload {
                NetlinkPayload::Done(_) => return Ok(answers),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                // The request was executed.
                NetlinkPayload::Error(_) => return Ok(answers),
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                _ => {}
            }
            // Parts are aligned to four bytes.
            let length = part.header.length.next_multiple_of(4) as usize;
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn address_of(message: &AddressMessage) -> Option<LinkAddress> {
    let attributes = || message.attributes.iter();
    let local = attributes().find_map(|one| match one {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    // IPv6 addresses without a peer have only this one.
    let address = attributes().find_map(|one| match one {
        AddressAttribute::Address(ip) => Some(*ip),
        _ => None,
    });
    let valid = attributes().find_map(|one| match one {
        AddressAttribute::CacheInfo(times) => Some(times.ifa_valid),
        _ => None,
    });
    Some(LinkAddress {
        net: IpNet::new(local.or(address)?, message.header.prefix_len).ok()?,
        valid: valid.unwrap_or(u32::MAX),
    })
}

/// The unspecified address of a family.
pub(crate) fn unspecified(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
