//! Sockets of a client, and an exchange by one: a message is sent until an answer comes or the time
//! is up.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use cni::{Error, code};
use etherparse::{LaxSlicedPacket, PacketBuilder, TransportSlice};
use pnet_datalink::{Channel, ChannelType, Config, DataLinkReceiver, DataLinkSender, MacAddr};
use socket2::{Domain, Protocol, Type};

use crate::Link;

/// The ports of DHCP.
pub(crate) const CLIENT: u16 = 68;
pub(crate) const SERVER: u16 = 67;

/// Ethernet's number of IPv4.
const IPV4: u16 = 0x0800;

/// The interval in which the end of a wait is noticed.
const INTERVAL: Duration = Duration::from_millis(50);

/// The time after which a message is sent again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Largest message that is read, in bytes.
const LARGEST: usize = 4096;

/// A socket of a client.
pub(crate) enum Socket {
    /// For DHCP on an interface without an address: sends to all hosts on the link, and sees what
    /// comes for any address.
    Packet(Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>),
    /// The kernel's UDP, to one server or a group.
    Udp(UdpSocket, SocketAddr),
}

impl Socket {
    /// A packet socket on the link.
    pub(crate) fn packet(link: &Link) -> io::Result<Self> {
        let mut interface = link.interface.clone();
        // The address of the frames that are sent.
        interface.mac = Some(MacAddr::broadcast());
        let config = Config {
            channel_type: ChannelType::Layer3(IPV4),
            promiscuous: false,
            read_timeout: Some(INTERVAL),
            ..Config::default()
        };
        match pnet_datalink::channel(&interface, config)? {
            Channel::Ethernet(sender, receiver) => Ok(Self::Packet(sender, receiver)),
            _ => Err(io::Error::other("it has another kind of link")),
        }
    }

    /// A socket of UDP that uses only this link.
    pub(crate) fn udp(link: &Link, from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(from);
        let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_broadcast(true)?;
        if domain == Domain::IPV6 {
            socket.set_only_v6(true)?;
        }
        socket.bind_device(Some(link.interface.name.as_bytes()))?;
        socket.set_read_timeout(Some(INTERVAL))?;
        socket.bind(&from.into())?;
        Ok(Self::Udp(socket.into(), to))
    }

    /// Sends a message, and again after each wait, until `read` takes a packet as its answer.
    pub(crate) fn ask<T>(
        &mut self,
        message: &[u8],
        until: Instant,
        mut read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<T, Error> {
        let mut wait = FIRST_WAIT;
        while Instant::now() < until {
            match self.send(message) {
                // The kernel still verifies that nobody else has the link's own address of IPv6.
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                    thread::sleep(INTERVAL);
                    continue;
                }
                sent => sent.map_err(io_error)?,
            }
            let again = (Instant::now() + wait).min(until);
            while let Some(packet) = self.receive(again).map_err(io_error)? {
                if let Some(answer) = read(&packet) {
                    return Ok(answer);
                }
            }
            wait *= 2;
        }
        let why = "no DHCP server answers";
        Err(Error::new(code::TRY_AGAIN_LATER, why))
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Packet(sender, _) => {
                let (from, to) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
                let headers = PacketBuilder::ipv4(from.octets(), to.octets(), 64);
                let mut packet = Vec::new();
                let written = headers.udp(CLIENT, SERVER).write(&mut packet, message);
                written.map_err(io::Error::other)?;
                let sent = sender.send_to(&packet, None);
                sent.unwrap_or_else(|| Err(io::Error::other("it can't be sent")))
            }
            Self::Udp(socket, to) => socket.send_to(message, *to).map(drop),
        }
    }

    /// Receives a message; `None` if the time is up.
    fn receive(&mut self, until: Instant) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; LARGEST];
        while Instant::now() < until {
            let received = match self {
                Self::Packet(_, receiver) => receiver.next().map(message_to_client),
                Self::Udp(socket, _) => {
                    let received = socket.recv(&mut buffer);
                    received.map(|length| Some(&buffer[..length]))
                }
            };
            match received {
                Ok(Some(message)) => return Ok(Some(message.to_vec())),
                Ok(None) => {}
                Err(error) => match error.kind() {
                    ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }
}

/// The error of a socket.
pub(crate) fn io_error(error: io::Error) -> Error {
    Error::io("its socket", error)
}

/// The message in a packet for a client.
fn message_to_client(packet: &[u8]) -> Option<&[u8]> {
    match LaxSlicedPacket::from_ip(packet).ok()?.transport? {
        TransportSlice::Udp(udp) if udp.destination_port() == CLIENT => Some(udp.payload()),
        _ => None,
    }
}
