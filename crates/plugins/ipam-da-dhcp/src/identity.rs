//! The identity of a client towards DHCP servers: network, interface, and the workload's sticky
//! key, else the container.

use cni::{Attachment, NetworkName};
use sha2::{Digest, Sha256};

/// Longest client ID that isn't replaced by a hash, in bytes. An option has at most 255.
const LONGEST: usize = 200;

/// The identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The client identifier of DHCP (option 61).
    pub client_id: Vec<u8>,
    /// True if it comes from a sticky key. The workload's next container has the same identity,
    /// so its lease isn't released.
    pub is_sticky: bool,
}

impl Identity {
    /// The identity of an attachment. `provided` is a client ID of the configuration, which is
    /// sent as it is.
    ///
    /// The ID is of type 0, a text: `lan/eth0/CONTAINER` or `lan/eth0:STICKY-KEY`. A name of an
    /// interface or a network has neither `/` nor `:`, so no two are equal.
    pub(crate) fn new(
        network: &NetworkName,
        attachment: &Attachment,
        sticky: Option<&str>,
        provided: Option<Vec<u8>>,
    ) -> Self {
        let sticky = sticky.filter(|key| !key.is_empty());
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        let mut text = match sticky {
            Some(key) => format!("{network}/{ifname}:{key}"),
            None => format!("{network}/{ifname}/{container_id}"),
        };
        if text.len() > LONGEST {
            text = hex(&Sha256::digest(&text));
        }
        Self {
            is_sticky: sticky.is_some() && provided.is_none(),
            client_id: provided.unwrap_or_else(|| [b"\0", text.as_bytes()].concat()),
        }
    }

    /// The identifier of DHCPv6: a DUID with a UUID (RFC 6355), which is a hash of the client ID.
    pub(crate) fn duid(&self) -> Vec<u8> {
        [&[0, 4], &Sha256::digest(&self.client_id)[..16]].concat()
    }

    /// The number of the only identity association of this DUID.
    pub(crate) const IAID: u32 = 1;
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; `None` if it is something else.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(container: &str, sticky: Option<&str>) -> Identity {
        let attachment = Attachment {
            container_id: container.parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        Identity::new(&"lan".parse().unwrap(), &attachment, sticky, None)
    }

    #[test]
    fn a_sticky_key_stands_in_for_the_container() {
        assert_eq!(identity("c1", None).client_id, b"\0lan/eth0/c1");
        let sticky = identity("c1", Some("shop/db-0"));
        assert_eq!(sticky.client_id, b"\0lan/eth0:shop/db-0");
        assert_eq!(sticky, identity("c2", Some("shop/db-0")));
        assert!(sticky.is_sticky && !identity("c1", Some("")).is_sticky);
        assert_ne!(identity("c1", None).duid(), identity("c2", None).duid());
    }

    #[test]
    fn a_long_identity_is_a_hash() {
        let id = identity(&"c".repeat(300), None);
        assert_eq!(id.client_id.len(), 65);
        assert_eq!(id.duid().len(), 18);
    }

    #[test]
    fn hexadecimal_digits_read_back() {
        assert_eq!(from_hex(&hex(&[0, 10, 255])), Some(vec![0, 10, 255]));
        assert_eq!(from_hex("0g"), None);
    }
}
