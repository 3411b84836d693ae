//! What a reservation file says, in the format of host-local
//! (`backend/disk/backend.go`): its name is the address, its content the holder.

use std::net::IpAddr;

/// What the names of the files start with that hold the address given last.
pub const LAST_RESERVED_PREFIX: &str = "last_reserved_ip.";

/// The name of the file that is locked while the directory is used.
pub const LOCK_FILE: &str = "lock";

/// The address that a file of this name is the reservation of, if it is one.
pub fn address_of_file(name: &str) -> Option<IpAddr> {
    let ip: IpAddr = name.parse().ok()?;
    // Another spelling of an address would be another file.
    (ip.to_string() == name).then_some(ip)
}

/// Who an address is reserved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// One interface of a container: `<containerID>\r\n<ifname>`.
    Attachment {
        /// The container.
        container_id: String,
        /// The interface.
        ifname: String,
    },
    /// A container as a whole, as host-local wrote it before 0.7: `<containerID>`.
    Container(String),
    /// Nobody: the file is empty or cut off. Whoever wrote it crashed before
    /// the address could be used.
    Torn,
}

impl Holder {
    /// Reads a file's content. Surrounding white space doesn't count.
    pub fn parse(content: &[u8]) -> Self {
        let text = String::from_utf8_lossy(content);
        // A power cut can leave a file's length without its content: zeroes.
        if text.contains('\0') {
            return Self::Torn;
        }
        match text.trim().split_once("\r\n") {
            Some((container_id, ifname)) => Self::Attachment {
                container_id: container_id.to_owned(),
                ifname: ifname.to_owned(),
            },
            None if text.trim().is_empty() => Self::Torn,
            // The line break was written, what comes after it wasn't.
            None if text.contains('\r') => Self::Torn,
            None => Self::Container(text.trim().to_owned()),
        }
    }

    /// The content of an attachment's file.
    pub fn content(container_id: &str, ifname: &str) -> Vec<u8> {
        format!("{container_id}\r\n{ifname}").into_bytes()
    }

    /// Whether it is exactly this attachment.
    pub fn is_attachment(&self, container_id: &str, ifname: &str) -> bool {
        matches!(self, Self::Attachment { container_id: c, ifname: i }
            if c == container_id && i == ifname)
    }

    /// Whether it is this container as a whole.
    pub fn is_container(&self, container_id: &str) -> bool {
        matches!(self, Self::Container(c) if c == container_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_files_are_told_from_torn_ones() {
        let attachment = |c: &str, i: &str| Holder::Attachment {
            container_id: c.into(),
            ifname: i.into(),
        };
        for (content, holder) in [
            ("c1\r\neth0", attachment("c1", "eth0")),
            ("c1\r\neth0\n", attachment("c1", "eth0")),
            ("c1", Holder::Container("c1".into())),
            ("c1\n", Holder::Container("c1".into())),
            ("", Holder::Torn),
            (" \r\n", Holder::Torn),
            ("c1\r", Holder::Torn),
            ("c1\r\n", Holder::Torn),
            ("\0\0\0\0", Holder::Torn),
            ("c1\r\n\0\0\0\0", Holder::Torn),
        ] {
            assert_eq!(Holder::parse(content.as_bytes()), holder, "{content:?}");
        }
    }

    #[test]
    fn only_an_address_in_its_usual_spelling_names_a_reservation() {
        for name in ["10.0.0.1", "fd00::1", "::"] {
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
        fn what_is_written_is_read(id in "[A-Za-z0-9][A-Za-z0-9_.-]{0,70}", ifname in "[a-z0-9.@-]{1,15}") {
            let holder = Holder::parse(&Holder::content(&id, &ifname));
            prop_assert!(holder.is_attachment(&id, &ifname));
            prop_assert!(!holder.is_container(&id));
        }

        #[test]
        fn any_bytes_are_read_as_something(content: Vec<u8>) {
            Holder::parse(&content);
        }
    }
}
