//! Format of a reservation file, as host-local defines it
//! (`backend/disk/backend.go`): its name is the address, its content the holder.

use std::fmt;
use std::net::IpAddr;

use cni::{Attachment, NetworkName};

/// Separates the lines of a reservation file.
const LINE_BREAK: &str = "\r\n";

/// The address of the reservation in a file of this name; `None` for any other file.
pub fn address_of_file(name: &str) -> Option<IpAddr> {
    let ip: IpAddr = name.parse().ok()?;
    // Another spelling of an address would be another file.
    (ip.to_string() == name).then_some(ip)
}

/// Content of a reservation file:
/// `<containerID>[\r\n<ifname>[\r\n<network>]]`.
///
/// The third line is ours. It is written in a directory that isn't named after the
/// network: that of named pools, or of a space. host-local compares the whole content with its
/// two lines, so it neither finds nor releases a file with three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// ID of the container: the file's first line.
    pub container_id: String,
    /// The interface. `None` in a file of a host-local before 0.7, which reserved
    /// addresses to containers as a whole.
    pub ifname: Option<String>,
    /// The network. `None` is the network that the directory is named after.
    pub network: Option<String>,
}

impl Reservation {
    /// Reads a file's content. `None` for a torn file: empty or cut off, because its
    /// writer crashed before the address could be used. Surrounding white space
    /// doesn't count.
    pub fn parse(content: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content);
        // A power cut can leave a file's length without its content: zeroes. A line break is
        // followed by a line.
        if text.contains('\0') || text.ends_with('\r') || text.ends_with(LINE_BREAK) {
            return None;
        }
        let mut lines = text.trim().splitn(3, LINE_BREAK).map(str::to_owned);
        Some(Self {
            container_id: lines.next().filter(|line| !line.is_empty())?,
            ifname: lines.next(),
            network: lines.next(),
        })
    }

    /// The reservation of an attachment. `network` is `None` in the directory that is named
    /// after the network.
    pub(crate) fn new(attachment: &Attachment, network: Option<&NetworkName>) -> Self {
        Self {
            container_id: attachment.container_id.to_string(),
            ifname: Some(attachment.ifname.to_string()),
            network: network.map(ToString::to_string),
        }
    }

    /// Content of its file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut content = self.container_id.clone();
        for line in self.ifname.iter().chain(&self.network) {
            content.push_str(LINE_BREAK);
            content.push_str(line);
        }
        content.into_bytes()
    }

    /// True if the address is reserved to this interface of this container.
    pub fn is_attachment(&self, attachment: &Attachment) -> bool {
        self.container_id == attachment.container_id.as_str()
            && self.ifname.as_deref() == Some(attachment.ifname.as_str())
    }

    /// The network that it is of, in the directory of this name.
    pub fn network_in<'a>(&'a self, directory: &'a str) -> &'a str {
        self.network.as_deref().unwrap_or(directory)
    }

    /// True if the address is reserved to this container as a whole.
    pub fn is_container(&self, attachment: &Attachment) -> bool {
        self.container_id == attachment.container_id.as_str() && self.ifname.is_none()
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.container_id)?;
        if let Some(ifname) = &self.ifname {
            write!(f, " {ifname}")?;
        }
        if let Some(network) = &self.network {
            write!(f, " on network {network}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_files_are_told_from_torn_ones() {
        let of = |lines: &[&str]| {
            let line = |n: usize| lines.get(n).map(|&line| line.to_owned());
            Some(Reservation {
                container_id: line(0).unwrap(),
                ifname: line(1),
                network: line(2),
            })
        };
        for (content, reservation) in [
            ("c1\r\neth0", of(&["c1", "eth0"])),
            ("c1\r\neth0\n", of(&["c1", "eth0"])),
            ("c1\r\neth0\r\nred", of(&["c1", "eth0", "red"])),
            ("c1\r\neth0\r\nred\n", of(&["c1", "eth0", "red"])),
            ("c1", of(&["c1"])),
            ("c1\n", of(&["c1"])),
            ("", None),
            (" \r\n", None),
            ("c1\r", None),
            ("c1\r\n", None),
            ("c1\r\neth0\r", None),
            ("c1\r\neth0\r\n", None),
            ("c1\r\neth0\r\nred\r\n", None),
            ("\0\0\0\0", None),
            ("c1\r\n\0\0\0\0", None),
        ] {
            assert_eq!(
                Reservation::parse(content.as_bytes()),
                reservation,
                "{content:?}"
            );
        }
    }

    #[test]
    fn only_an_address_in_its_usual_spelling_names_a_reservation() {
        for name in ["10.0.0.1", "fd00::1", "::", "::ffff:10.0.0.1"] {
            assert!(address_of_file(name).is_some(), "{name}");
        }
        for name in [
            "lock",
            "last_reserved_ip.0",
            "10.0.0.1.tmp",
            "FD00::1",
            "fd00:0::1",
            "",
        ] {
            assert_eq!(address_of_file(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            id in "[A-Za-z0-9][A-Za-z0-9_.-]{0,70}",
            ifname in "[a-z0-9.@-]{1,15}",
            network in proptest::option::of("[A-Za-z0-9][A-Za-z0-9_.-]{0,70}"),
        ) {
            prop_assume!(ifname != "." && ifname != "..");
            let attachment = Attachment {
                container_id: id.parse().unwrap(),
                ifname: ifname.parse().unwrap(),
            };
            let network: Option<NetworkName> = network.map(|name| name.parse().unwrap());
            let written = Reservation::new(&attachment, network.as_ref());
            let read = Reservation::parse(&written.to_bytes()).unwrap();
            prop_assert!(read.is_attachment(&attachment) && !read.is_container(&attachment));
            prop_assert_eq!(read, written);
        }
    }

    #[test]
    fn a_reservation_is_an_interfaces_or_a_whole_containers() {
        let attachment = Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        for (content, [is_attachment, is_container], text) in [
            ("c1\r\neth0", [true, false], "c1 eth0"),
            ("c1\r\neth1", [false, false], "c1 eth1"),
            ("c2\r\neth0", [false, false], "c2 eth0"),
            ("c1", [false, true], "c1"),
            ("c2", [false, false], "c2"),
            ("c1\r\neth0\r\nred", [true, false], "c1 eth0 on network red"),
        ] {
            let reservation = Reservation::parse(content.as_bytes()).unwrap();
            assert_eq!(reservation.is_attachment(&attachment), is_attachment);
            assert_eq!(reservation.is_container(&attachment), is_container);
            assert_eq!(reservation.to_string(), text);
        }
    }
}
