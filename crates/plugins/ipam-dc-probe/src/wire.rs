//! The wire of an interface: asks for addresses, and waits for answers.
//!
//! Each address has a packet socket, which is bound to the interface and takes nothing but frames
//! about this address. So nothing else that is on the wire can fill its queue.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, IntoRawFd};
use std::time::Instant;

use cni::{Cancellation, Error, code};
use pnet_datalink::{ChannelType, Config, MacAddr, NetworkInterface};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use socket2::{Domain, SockFilter, Socket, Type};

use crate::frames::{self, ARP, ICMPV6, IPV6};
use crate::settings::Settings;

/// All nodes of a wire: an advertisement for somebody without an address goes to them.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// More than the longest frame that counts.
const FRAME: usize = 256;

/// A packet socket, which receives nothing before it is bound.
///
/// # Errors
///
/// Code 5: the process hasn't the right.
pub(crate) fn packet_socket() -> Result<Socket, Error> {
    let opened = Socket::new(Domain::PACKET, Type::RAW, None);
    opened.map_err(|why| Error::io("a packet socket (CAP_NET_RAW)", why))
}

/// Asks for all addresses, as often as the settings say. Returns the first one that somebody
/// uses, with the MAC address.
///
/// # Errors
///
/// Code 5: a question couldn't be sent, or an answer not be received. Code 106: cancelled.
pub(crate) fn first_in_use(
    interface: &NetworkInterface,
    addresses: &[IpAddr],
    settings: &Settings,
    cancellation: Option<&dyn Cancellation>,
) -> Result<Option<(IpAddr, MacAddr)>, Error> {
    let failed = |why| Error::io(format_args!("interface {}", interface.name), why);
    let mut questions = Vec::new();
    for ip in addresses {
        let question = Question::new(packet_socket()?, interface, *ip);
        questions.push(question.map_err(failed)?);
    }
    for left in (0..settings.count).rev() {
        for question in &questions {
            let frame = frames::question(question.ip, question.mac);
            (&question.socket).write_all(&frame).map_err(failed)?;
        }
        // The kernel takes milliseconds to close a packet socket. The next question comes so much
        // earlier, and the last one has the whole time.
        let pause = settings.wait * if left > 0 { 24 } else { 25 } / 25;
        let end = Instant::now() + pause;
        while wait(&questions, end, cancellation).map_err(failed)? {
            for question in &questions {
                if let Some(mac) = question.answer().map_err(failed)? {
                    return Ok(Some((question.ip, mac)));
                }
            }
            if cancellation.is_some_and(Cancellation::is_cancelled) {
                return Err(Error::new(code::INTERRUPTED, "the call was cancelled"));
            }
        }
    }
    Ok(None)
}

/// Waits for a frame or a cancellation. False if neither came in time.
fn wait(
    questions: &[Question],
    end: Instant,
    cancellation: Option<&dyn Cancellation>,
) -> io::Result<bool> {
    let left = end.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    let cancelled = cancellation.and_then(|cancellation| cancellation.fd().ok());
    let sockets = questions.iter().map(|question| question.socket.as_fd());
    let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut all: Vec<PollFd<'_>> = sockets.chain(cancelled).map(readable).collect();
    let ready = retry_on_intr(|| poll(&mut all, Some(&left)))?;
    Ok(ready > 0)
}

/// The question for one address.
struct Question {
    ip: IpAddr,
    mac: MacAddr,
    socket: Socket,
    /// Member of the multicast groups, so that the network card accepts the answers.
    _groups: Option<Socket>,
}

impl Question {
    /// Binds the socket, which doesn't block from then on.
    fn new(socket: Socket, interface: &NetworkInterface, ip: IpAddr) -> io::Result<Self> {
        socket.attach_filter(&filter(ip))?;
        // The channel only binds: its own wait can't be cancelled.
        let config = Config {
            channel_type: ChannelType::Layer3(if ip.is_ipv4() { ARP } else { IPV6 }),
            promiscuous: false,
            socket_fd: Some(socket.try_clone()?.into_raw_fd()),
            ..Config::default()
        };
        pnet_datalink::channel(interface, config)?;
        let groups = match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(member_of_groups(interface, ip)?),
        };
        Ok(Self {
            ip,
            mac: interface.mac.unwrap_or_default(),
            socket,
            _groups: groups,
        })
    }

    /// The MAC address of a user of the address, if the next frame that has come tells one.
    fn answer(&self) -> io::Result<Option<MacAddr>> {
        let mut frame = [0; FRAME];
        match (&self.socket).read(&mut frame) {
            Ok(length) => Ok(frames::user_of(self.ip, &frame[..length], self.mac)),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(why) => Err(why),
        }
    }
}

/// A socket that is a member of the groups to which answers and others' questions go.
fn member_of_groups(interface: &NetworkInterface, ip: Ipv6Addr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    for group in [ALL_NODES, frames::solicited_nodes(ip)] {
        socket.join_multicast_v6(&group, interface.index)?;
    }
    Ok(socket)
}

/// The kernel's packet filter (classic BPF) for frames about this address. Frames for another
/// machine, or of a VLAN that the interface isn't on, are left out.
fn filter(ip: IpAddr) -> [SockFilter; 8] {
    const WORD: u16 = 0x20;
    const BYTE: u16 = 0x30;
    // In the place of an offset: whom a frame is for (`SKF_AD_OFF` + `SKF_AD_PKTTYPE`); 3 is another
    // machine.
    const FRAME_KIND: usize = 0xffff_f004;
    let load = |size, offset| SockFilter::new(size, 0, 0, offset as u32);
    let skip = |equal, others, value| SockFilter::new(0x15, equal, others, value);
    let [first, second, third, fourth] = match ip {
        IpAddr::V4(ip) => [
            load(WORD, frames::ARP_SENDER),
            skip(3, 0, ip.to_bits()),
            load(WORD, frames::ARP_TARGET),
            skip(1, 0, ip.to_bits()),
        ],
        IpAddr::V6(ip) => [
            load(BYTE, frames::NEXT_HEADER),
            skip(0, 2, ICMPV6.into()),
            load(WORD, frames::NDP_TARGET + 12),
            skip(1, 0, ip.to_bits() as u32),
        ],
    };
    let [kind, is_another] = [load(WORD, FRAME_KIND), skip(4, 0, 3)];
    let [drop, take] = [0, FRAME].map(|length| SockFilter::new(0x06, 0, 0, length as u32));
    [kind, is_another, first, second, third, fourth, drop, take]
}
