//! Sockets of a client: packets on a link, and the kernel's UDP.

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::IntoRawFd;
use std::time::Duration;

use cni::Error;
use etherparse::{EtherType, LaxSlicedPacket, PacketBuilder, TransportSlice};
use pnet_datalink::{ChannelType, Config, MacAddr};
use socket2::{Domain, Protocol, SockAddr, Type};

use crate::Link;

/// The ports of DHCP.
pub(crate) const CLIENT: u16 = 68;
pub(crate) const SERVER: u16 = 67;

/// Longest wait for one packet: the end of an exchange is noticed that late.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// Largest packet that is read, in bytes.
const LARGEST: usize = 4096;

/// A socket of a client.
pub(crate) enum Socket {
    /// For DHCP on an interface of this MAC address, which need not have another address: sends to
    /// all hosts on the link, and sees what comes for any address.
    Packet(socket2::Socket, MacAddr),
    /// The kernel's UDP, to one server or a group.
    Udp(socket2::Socket, SockAddr),
}

impl Socket {
    /// A packet socket on the link.
    pub(crate) fn packet(link: &Link) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::PACKET, Type::RAW, None)?;
        // The channel only binds.
        let config = Config {
            channel_type: ChannelType::Layer3(EtherType::IPV4.0),
            promiscuous: false,
            socket_fd: Some(socket.try_clone()?.into_raw_fd()),
            ..Config::default()
        };
        pnet_datalink::channel(&link.interface, config)?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(INTERVAL))?;
        let mac = link.interface.mac.unwrap_or_default();
        Ok(Self::Packet(socket, mac))
    }

    /// A socket of UDP that uses only this link.
    pub(crate) fn udp(link: &Link, from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(from);
        let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_broadcast(true)?;
        socket.bind_device(Some(link.interface.name.as_bytes()))?;
        socket.set_read_timeout(Some(INTERVAL))?;
        socket.bind(&from.into())?;
        Ok(Self::Udp(socket, to.into()))
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Packet(socket, mac) => {
                let (from, to) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
                let headers = PacketBuilder::ethernet2(mac.octets(), MacAddr::broadcast().octets())
                    .ipv4(from.octets(), to.octets(), 64)
                    .udp(CLIENT, SERVER);
                let mut frame = Vec::new();
                let written = headers.write(&mut frame, message);
                written.map_err(io::Error::other)?;
                socket.send(&frame).map(drop)
            }
            Self::Udp(socket, to) => socket.send_to(message, to).map(drop),
        }
    }

    /// Receives a message; `None` if none has come in [`INTERVAL`], or a packet for others.
    pub(crate) fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; LARGEST];
        let (Self::Packet(socket, _) | Self::Udp(socket, _)) = self;
        let mut reader = socket;
        let length = match reader.read(&mut buffer) {
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => return Ok(None),
            read => read?,
        };
        let packet = &buffer[..length];
        let message = match self {
            Self::Packet(..) => message_to_client(packet),
            Self::Udp(..) => Some(packet),
        };
        Ok(message.map(<[u8]>::to_vec))
    }
}

/// The error of a socket.
pub(crate) fn io_error(error: io::Error) -> Error {
    Error::io("its socket", error)
}

/// The message in a frame for a client.
fn message_to_client(frame: &[u8]) -> Option<&[u8]> {
    match LaxSlicedPacket::from_ethernet(frame).ok()?.transport? {
        TransportSlice::Udp(udp) if udp.destination_port() == CLIENT => Some(udp.payload()),
        _ => None,
    }
}
