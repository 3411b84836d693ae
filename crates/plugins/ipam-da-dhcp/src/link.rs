//! An interface of this thread's network namespace, by the kernel's routing socket.
//!
//! The end of a lease is kept at the address itself, as its valid lifetime: the kernel removes the
//! address then, whatever process lives.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use cni::Object;
use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, CacheInfo};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use pnet_datalink::NetworkInterface;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use crate::FOREVER;

/// Largest part of an answer, in bytes: the kernel's own bound.
const LARGEST: usize = 32 << 10;

/// Both places of an interface's own address.
const FORMS: [fn(IpAddr) -> AddressAttribute; 2] =
    [AddressAttribute::Local, AddressAttribute::Address];

/// An interface.
pub struct Link {
    socket: OwnedFd,
    pub(crate) interface: NetworkInterface,
}

impl Link {
    /// Opens the interface of this name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown whether there is one.
    pub fn open(name: &str) -> io::Result<Option<Self>> {
        let all = pnet_datalink::interfaces();
        if all.is_empty() {
            return Err(io::Error::other("the interfaces can't be listed"));
        }
        let Some(interface) = all.into_iter().find(|interface| interface.name == name) else {
            return Ok(None);
        };
        let (family, flags) = (rustix::net::AddressFamily::NETLINK, SocketFlags::CLOEXEC);
        let socket = socket_with(family, SocketType::RAW, flags, None)?;
        Ok(Some(Self { socket, interface }))
    }

    /// Sets the interface up: some main plugins do so only after the IPAM plugin.
    pub(crate) fn set_up(&self) -> io::Result<()> {
        let mut request = LinkMessage::default();
        request.header.index = self.interface.index;
        request.header.flags = LinkFlags::Up;
        request.header.change_mask = LinkFlags::Up;
        self.request(Message::SetLink(request), NLM_F_ACK).map(drop)
    }

    /// An address of the interface in its subnet, and the seconds until the kernel removes it,
    /// [`FOREVER`] for never; `None` if the interface lacks it.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn address(&self, ip: IpAddr) -> io::Result<Option<(IpNet, u32)>> {
        let request = Message::GetAddress(AddressMessage::default());
        // Addresses of IPv6 without a peer aren't `Local`.
        let forms = FORMS.map(|form| form(ip));
        for answer in self.request(request, NLM_F_DUMP)? {
            if let Message::NewAddress(found) = answer
                && found.header.index == self.interface.index
                && forms.iter().any(|form| found.attributes.contains(form))
            {
                let net = IpNet::new(ip, found.header.prefix_len).map_err(io::Error::other)?;
                let mut attributes = found.attributes.iter();
                let lifetime = attributes.find_map(|attribute| match attribute {
                    AddressAttribute::CacheInfo(times) => Some(times.ifa_valid),
                    _ => None,
                });
                return Ok(Some((net, lifetime.unwrap_or(FOREVER))));
            }
        }
        Ok(None)
    }

    /// Adds an address, or sets the seconds after which the kernel removes it.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn put(&self, net: IpNet, valid: u32) -> io::Result<()> {
        let mut request = self.address_message(net);
        // As the main plugins' library sets it.
        if let IpNet::V4(net) = net
            && net.prefix_len() < 31
        {
            let broadcast = AddressAttribute::Broadcast(net.broadcast());
            request.attributes.push(broadcast);
        }
        let mut times = CacheInfo::default();
        (times.ifa_preferred, times.ifa_valid) = (valid, valid);
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

    /// Adds a route of a result through this interface, or replaces it. Without a gateway, or with
    /// an unspecified one, the destination is on the link.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn put_route(&self, to: IpNet, gateway: Option<IpAddr>, route: &Object) -> io::Result<()> {
        let mut request = RouteMessage::default();
        request.header.address_family = to.addr().into();
        request.header.destination_prefix_length = to.prefix_len();
        request.header.protocol = RouteProtocol::Boot;
        request.header.kind = RouteType::Unicast;
        request.attributes = vec![
            RouteAttribute::Destination(to.network().into()),
            RouteAttribute::Oif(self.interface.index),
        ];
        match gateway.filter(|gateway| !gateway.is_unspecified()) {
            Some(by) => request.attributes.push(RouteAttribute::Gateway(by.into())),
            None => request.header.scope = RouteScope::Link,
        }
        let number = |key| route.read("route", key).ok().flatten();
        let metric = number("priority").map(RouteAttribute::Priority);
        let mtu = number("mtu").map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
        request.attributes.extend(metric.into_iter().chain(mtu));
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.request(Message::NewRoute(request), flags).map(drop)
    }

    fn address_message(&self, net: IpNet) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = net.addr().into();
        message.header.prefix_len = net.prefix_len();
        message.header.index = self.interface.index;
        message.attributes = FORMS.map(|form| form(net.addr())).into();
        message
    }

    /// Sends a request to the kernel; returns all parts of its answer.
    fn request(&self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        request.finalize();
        let mut buffer = vec![0; request.buffer_len()];
        request.serialize(&mut buffer);
        send(&self.socket, &buffer, SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; LARGEST];
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let part = NetlinkMessage::deserialize(rest).map_err(io::Error::other)?;
                match part.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    // The last part, or an executed request.
                    NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    _ => {}
                }
                // Parts are aligned to four bytes.
                let length = part.header.length.next_multiple_of(4) as usize;
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
}
