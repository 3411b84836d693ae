//! Sockets of a client: DHCP before there is an address, DHCP with one, and DHCPv6.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use pnet_datalink::{
    Channel, ChannelType, Config, DataLinkReceiver, DataLinkSender, MacAddr, NetworkInterface,
};
use socket2::{Domain, Protocol, Type};

use crate::link::Link;

const CLIENT_PORT: u16 = 68;
const SERVER_PORT: u16 = 67;
const V6_CLIENT_PORT: u16 = 546;
const V6_SERVER_PORT: u16 = 547;

/// All servers and relays on the link (RFC 8415, section 7.1).
const V6_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// The interval in which the end of a wait is noticed.
const INTERVAL: Duration = Duration::from_millis(50);

/// Ethernet's number of IPv4.
const IPV4: u16 = 0x0800;

/// Number of UDP in IPv4's header.
const UDP: u8 = 17;

/// Lengths of the headers that a packet socket's packets have, in bytes.
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// Largest packet that is read, in bytes.
const LARGEST: usize = 4096;

/// A socket of a client. One is for one server or for all.
pub(crate) enum Socket {
    /// For an interface without an address: sends to all hosts on the link, and sees what comes
    /// for any address.
    Packet {
        sender: Box<dyn DataLinkSender>,
        receiver: Box<dyn DataLinkReceiver>,
        from: Ipv4Addr,
        to: Ipv4Addr,
    },
    /// A socket of the kernel's UDP.
    Udp { socket: UdpSocket, to: SocketAddr },
}

impl Socket {
    /// A packet socket on the link, from this address (unspecified for none) to that one, which
    /// all hosts of the link get.
    pub(crate) fn packet(link: &Link, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<Self> {
        let interface = NetworkInterface {
            name: link.name.clone(),
            description: String::new(),
            index: link.index,
            // The address of the frames that are sent.
            mac: Some(MacAddr::broadcast()),
            ips: Vec::new(),
            flags: 0,
        };
        let config = Config {
            channel_type: ChannelType::Layer3(IPV4),
            promiscuous: false,
            read_timeout: Some(INTERVAL),
            ..Config::default()
        };
        match pnet_datalink::channel(&interface, config)? {
            Channel::Ethernet(sender, receiver) => Ok(Self::Packet {
                sender,
                receiver,
                from,
                to,
            }),
            _ => Err(io::Error::other("it has another kind of link")),
        }
    }

    /// A socket of an address of the link, for one server.
    pub(crate) fn udp(link: &Link, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<Self> {
        let from = SocketAddrV4::new(from, CLIENT_PORT);
        let socket = bound(link, Domain::IPV4, from.into())?;
        let to = SocketAddrV4::new(to, SERVER_PORT).into();
        Ok(Self::Udp { socket, to })
    }

    /// A socket of the link's own address, for all servers of DHCPv6 on the link.
    pub(crate) fn udp6(link: &Link) -> io::Result<Self> {
        let any = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, V6_CLIENT_PORT, 0, 0);
        let socket = bound(link, Domain::IPV6, any.into())?;
        let to = SocketAddrV6::new(V6_SERVERS, V6_SERVER_PORT, 0, link.index).into();
        Ok(Self::Udp { socket, to })
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Packet {
                sender, from, to, ..
            } => {
                let packet = datagram(message, *from, *to);
                let sent = sender.send_to(&packet, None);
                sent.unwrap_or_else(|| Err(io::Error::other("it can't be sent")))
            }
            Self::Udp { socket, to } => socket.send_to(message, *to).map(drop),
        }
    }

    /// Sends a message as soon as the link's own address of IPv6 is usable: the kernel first
    /// verifies that nobody else has it.
    pub(crate) fn wait_for_own_address(&mut self, until: Instant) -> io::Result<()> {
        loop {
            match self.send(&[]) {
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
                sent => return sent,
            }
            if Instant::now() >= until {
                let why = "it has no usable address of IPv6 (fe80::/10)";
                return Err(io::Error::new(ErrorKind::AddrNotAvailable, why));
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Receives a message; `None` if the time is up.
    pub(crate) fn receive(&mut self, until: Instant) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; LARGEST];
        while Instant::now() < until {
            let received = match self {
                Self::Packet { receiver, .. } => receiver.next().map(|packet| payload(packet)),
                Self::Udp { socket, .. } => {
                    let received = socket.recv_from(&mut buffer);
                    received.map(|(length, _)| Some(&buffer[..length]))
                }
            };
            match received {
                Ok(Some(message)) => return Ok(Some(message.to_vec())),
                Ok(None) => {}
                // A refusal is what ICMP says of an earlier message.
                Err(error) => match error.kind() {
                    ErrorKind::TimedOut | ErrorKind::WouldBlock => {}
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }
}

/// A socket of UDP that uses only this link.
fn bound(link: &Link, domain: Domain, from: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(true)?;
    }
    socket.bind_device(Some(link.name.as_bytes()))?;
    socket.set_read_timeout(Some(INTERVAL))?;
    socket.bind(&from.into())?;
    Ok(socket.into())
}

/// A message with its headers of IPv4 and UDP. UDP's checksum is left out.
fn datagram(message: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let length = |headers: usize| u16::try_from(headers + message.len()).unwrap_or(u16::MAX);
    let mut ip = [0; IP_HEADER];
    // Version 4, a header of five words; time to live; the addresses.
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length(IP_HEADER + UDP_HEADER).to_be_bytes());
    (ip[8], ip[9]) = (64, UDP);
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let words = ip
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    let udp = [CLIENT_PORT, SERVER_PORT, length(UDP_HEADER), 0];
    let udp: Vec<u8> = udp.iter().flat_map(|word| word.to_be_bytes()).collect();
    [&ip[..], &udp, message].concat()
}

/// The message of a packet, if a server has sent it to a client.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let udp = packet.get(header..)?;
    let word = |at: usize| Some(u16::from_be_bytes([*udp.get(at)?, *udp.get(at + 1)?]));
    let is_answer =
        packet.get(9) == Some(&UDP) && (word(0), word(2)) == (Some(SERVER_PORT), Some(CLIENT_PORT));
    if !is_answer {
        return None;
    }
    udp.get(UDP_HEADER..usize::from(word(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_valid_headers_and_only_an_answer_of_a_server_is_read() {
        let mut packet = datagram(b"hello", Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let words = packet[..IP_HEADER].chunks(2);
        let sum: u32 = words
            .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(payload(&packet), None);
        // From the server's port to the client's.
        packet[IP_HEADER..IP_HEADER + 4].copy_from_slice(&[0, 67, 0, 68]);
        assert_eq!(payload(&packet), Some(&b"hello"[..]));
        // Frames are padded, and packets cut off.
        packet.push(0);
        assert_eq!(payload(&packet), Some(&b"hello"[..]));
        assert_eq!(payload(&packet[..packet.len() - 3]), None);
        assert_eq!(payload(&[]), None);
    }
}
