//! Ethernet frames: the question for an address, and whether a frame answers it.
//!
//! IPv4: an ARP probe (RFC 5227), whose sender address is zero, so that nobody learns it. IPv6: a
//! neighbour solicitation as in duplicate address detection (RFC 4862), from the unspecified
//! address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pnet_datalink::MacAddr;

/// Protocol numbers in an Ethernet frame.
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV6: u16 = 0x86dd;

/// Offsets in a frame: an ARP packet's sender and target address; an IPv6 packet's next header;
/// the target of a neighbour solicitation or advertisement.
pub(crate) const ARP_SENDER: usize = 28;
pub(crate) const ARP_TARGET: usize = 38;
pub(crate) const NEXT_HEADER: usize = 20;
pub(crate) const NDP_TARGET: usize = 62;

pub(crate) const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// The question for an address, from the interface with this MAC address.
pub(crate) fn question(ip: IpAddr, mac: MacAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => arp_probe(ip, mac),
        IpAddr::V6(ip) => solicitation(ip, mac),
    }
}

/// The MAC address of the machine that has the address, or asks for it as this probe does,
/// according to this frame. Frames from `own` don't count.
pub(crate) fn user_of(ip: IpAddr, frame: &[u8], own: MacAddr) -> Option<MacAddr> {
    let mac = match ip {
        IpAddr::V4(ip) => arp_user(ip, frame.first_chunk()?),
        IpAddr::V6(ip) => ndp_user(ip, frame.first_chunk()?),
    };
    let mac = MacAddr::from(<[u8; 6]>::try_from(mac?).ok()?);
    Some(mac).filter(|mac| *mac != own)
}

fn arp_probe(ip: Ipv4Addr, mac: MacAddr) -> Vec<u8> {
    let mac = mac.octets();
    // ARP; Ethernet, IPv4, lengths of their addresses, request.
    let header = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    [&[0xff; 6], &mac, &header[..], &mac, &[0; 10], &ip.octets()].concat()
}

fn arp_user(ip: Ipv4Addr, frame: &[u8; 42]) -> Option<&[u8]> {
    let (sender, target) = (&frame[ARP_SENDER..][..4], &frame[ARP_TARGET..]);
    let is_probe = frame[21] == 1 && sender == [0; 4] && target == ip.octets();
    let is_arp = frame[12..20] == [8, 6, 0, 1, 8, 0, 6, 4];
    (is_arp && (sender == ip.octets() || is_probe)).then(|| &frame[22..28])
}

/// The multicast group in which the neighbour that has this address listens.
pub(crate) fn solicited_nodes(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = ip.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

fn solicitation(ip: Ipv6Addr, mac: MacAddr) -> Vec<u8> {
    let group = solicited_nodes(ip).octets();
    let mut message = [&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0][..], &ip.octets()].concat();
    let sum = checksum(&group, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    // IPv6; version 6, length of the message, the hop limit that proves that no router passed it on.
    let header = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, ICMPV6, 255];
    let ethernet = [&[0x33, 0x33], &group[12..], &mac.octets(), &header].concat();
    [&ethernet[..], &[0; 16], &group, &message].concat()
}

/// ICMPv6's checksum of a message from the unspecified address.
fn checksum(to: &[u8; 16], message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).expect("a message is short");
    let summed = [to, &length.to_be_bytes()[..], &[0, 0, 0, ICMPV6], message].concat();
    let add = |sum, word: &[u8]| sum + (u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = summed.chunks(2).fold(0, add);
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("a folded sum has 16 bits")
}

fn ndp_user(ip: Ipv6Addr, frame: &[u8; 78]) -> Option<&[u8]> {
    let is_ndp = frame[12..14] == IPV6.to_be_bytes() && frame[NEXT_HEADER..22] == [ICMPV6, 255];
    // Anybody else that solicits wants to send something to the address.
    let is_from_nobody = frame[22..38] == [0; 16];
    let counts = frame[54] == ADVERTISEMENT || frame[54] == SOLICITATION && is_from_nobody;
    (is_ndp && counts && frame[NDP_TARGET..] == ip.octets()).then(|| &frame[6..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddr = MacAddr(2, 0, 0, 0, 0, 1);
    const OTHER: MacAddr = MacAddr(2, 0, 0, 0, 0, 2);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// An ARP packet from [`OTHER`], with this operation, sender and target.
    fn arp(operation: u8, sender: &str, target: &str) -> Vec<u8> {
        let mut frame = arp_probe(target.parse().unwrap(), OTHER);
        frame[21] = operation;
        let sender: Ipv4Addr = sender.parse().unwrap();
        frame[ARP_SENDER..][..4].copy_from_slice(&sender.octets());
        frame
    }

    /// A neighbour discovery message of this type from [`OTHER`].
    fn ndp(kind: u8, source: &str, target: &str) -> Vec<u8> {
        let mut frame = solicitation(target.parse().unwrap(), OTHER);
        frame[54] = kind;
        let source: Ipv6Addr = source.parse().unwrap();
        frame[22..38].copy_from_slice(&source.octets());
        frame
    }

    #[test]
    fn an_arp_probe_has_no_sender_address() {
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2,
            0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 9, 0, 7,
        ];
        assert_eq!(question(ip("10.9.0.7"), OWN), expected);
    }

    #[test]
    fn a_solicitation_goes_to_the_group_of_the_address_and_its_checksum_is_right() {
        let frame = question(ip("fd00::1:2ff:7"), OWN);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0xff, 0, 7]);
        let group: Ipv6Addr = "ff02::1:ffff:7".parse().unwrap();
        assert_eq!(frame[38..54], group.octets());
        // The sum over a message with its checksum is zero.
        assert_eq!(checksum(&group.octets(), &frame[54..]), 0);
        assert_ne!(frame[56..58], [0, 0]);
        assert_eq!(frame.len(), 78);
    }

    #[test]
    fn who_has_the_address_or_asks_for_it_without_one_uses_it() {
        let of = |asked: &str, frame: &[u8]| user_of(ip(asked), frame, OWN);
        let (v4, v6) = ("10.9.0.7", "fd00::7");
        for (asked, frame) in [
            (v4, arp(2, v4, "0.0.0.0")),
            // It announces itself, or asks for somebody else.
            (v4, arp(1, v4, v4)),
            (v4, arp(1, v4, "10.9.0.1")),
            (v4, arp(1, "0.0.0.0", v4)),
            (v6, ndp(ADVERTISEMENT, v6, v6)),
            (v6, ndp(SOLICITATION, "::", v6)),
        ] {
            assert_eq!(of(asked, &frame), Some(OTHER), "{frame:?}");
            assert_eq!(user_of(ip(asked), &frame, OTHER), None);
            for end in 0..frame.len() {
                assert_eq!(of(asked, &frame[..end]), None);
            }
        }
    }

    #[test]
    fn who_looks_for_the_address_or_has_another_one_does_not_use_it() {
        let (v4, v6) = ("10.9.0.7", "fd00::7");
        let mut routed = ndp(ADVERTISEMENT, v6, v6);
        routed[21] = 64;
        for (asked, frame) in [
            (v4, arp(1, "10.9.0.1", v4)),
            (v4, arp(2, "10.9.0.8", v4)),
            (v4, arp(1, "0.0.0.0", "10.9.0.8")),
            (v6, ndp(SOLICITATION, "fe80::1", v6)),
            (v6, ndp(ADVERTISEMENT, "fd00::8", "fd00::8")),
            (v6, ndp(133, v6, v6)),
            (v6, routed),
        ] {
            assert_eq!(user_of(ip(asked), &frame, OWN), None, "{frame:?}");
        }
    }
}
