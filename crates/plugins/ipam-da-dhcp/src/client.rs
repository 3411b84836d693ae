//! A client towards DHCP servers: its identity, and the options that it sends and requests.

use std::collections::BTreeMap;

use cni::{Attachment, NetworkName};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest client ID that isn't replaced by a hash, in bytes. An option has at most 255.
const LONGEST: usize = 200;

/// The number of the option "client identifier".
pub(crate) const CLIENT_ID: u8 = 61;

/// A client. A lease remembers it, so that whoever renews the lease says the same to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    /// The digits of the client identifier (option 61), or of the DUID with DHCPv6.
    pub client_id: String,
    /// True if the identity is a workload's: its next container has the same one, so DEL doesn't
    /// release the lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// The numbers of further options that are sent, each with its value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) provide: Vec<(u8, String)>,
    /// The numbers of the options that are requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) request: Vec<u8>,
}

impl Client {
    /// The client of an attachment in DHCP. A client ID among the options is sent as it is.
    ///
    /// Ours is of type 0, a text: `lan/eth0/CONTAINER` or `lan/eth0:STICKY-KEY`. A name of an
    /// interface or a network has neither `/` nor `:`, so no two are equal.
    pub(crate) fn new(
        network: &NetworkName,
        attachment: &Attachment,
        sticky: Option<&str>,
        mut provide: BTreeMap<u8, String>,
        request: Vec<u8>,
    ) -> Self {
        let sticky = sticky.filter(|key| !key.is_empty());
        let place = format!("{network}/{}", attachment.ifname);
        let mut text = match sticky {
            Some(key) => format!("{place}:{key}"),
            None => format!("{place}/{}", attachment.container_id),
        };
        if text.len() > LONGEST {
            text = hex::encode(Sha256::digest(&text));
        }
        let provided = provide.remove(&CLIENT_ID);
        Self {
            sticky: sticky.is_some() && provided.is_none(),
            client_id: match provided {
                Some(id) => hex::encode(id),
                None => hex::encode([b"\0", text.as_bytes()].concat()),
            },
            provide: provide.into_iter().collect(),
            request,
        }
    }

    /// The same client in DHCPv6. Its DUID has a UUID (RFC 6355), which is a hash of the client ID.
    pub(crate) fn in_v6(&self) -> Self {
        let uuid = &Sha256::digest(self.id())[..16];
        Self {
            client_id: hex::encode([&[0, 4], uuid].concat()),
            sticky: self.sticky,
            ..Self::default()
        }
    }

    /// The bytes of the client identifier or the DUID.
    pub(crate) fn id(&self) -> Vec<u8> {
        hex::decode(&self.client_id).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(container: &str, sticky: Option<&str>) -> Client {
        let attachment = Attachment {
            container_id: container.parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let network = "lan".parse().unwrap();
        Client::new(&network, &attachment, sticky, BTreeMap::new(), Vec::new())
    }

    #[test]
    fn a_sticky_key_stands_in_for_the_container() {
        assert_eq!(client("c1", None).id(), b"\0lan/eth0/c1");
        let sticky = client("c1", Some("shop/db-0"));
        assert_eq!(sticky.id(), b"\0lan/eth0:shop/db-0");
        assert_eq!(sticky, client("c2", Some("shop/db-0")));
        assert!(sticky.sticky && !client("c1", Some("")).sticky);
        assert!(sticky.in_v6().sticky);
        assert_ne!(client("c1", None).in_v6(), client("c2", None).in_v6());
    }

    #[test]
    fn a_long_identity_is_a_hash() {
        let client = client(&"c".repeat(300), None);
        assert_eq!(client.id().len(), 65);
        assert_eq!(client.in_v6().id().len(), 18);
    }
}
