//! Values of addresses and blocks: the holder of an address, and the owner of a block.

use std::time::SystemTime;

use cni::Attachment;
use serde::{Deserialize, Serialize};

/// The value of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The node that gave the address.
    pub node: String,
    /// The network.
    pub network: String,
    /// The container.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The interface in the container.
    pub ifname: String,
    /// Time of the ADD by the node's clock.
    pub since: String,
    /// The call that reserved the address: the chain's call ID, or a random text. `None` in an
    /// address that a person has created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

/// The value of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockOwner {
    /// The node.
    pub node: String,
    /// Time of the claim by the node's clock.
    pub since: String,
}

impl Holder {
    /// The holder for an ADD that starts now, in this call of the chain.
    pub fn new(node: &str, network: &str, attachment: &Attachment, call: Option<String>) -> Self {
        Self {
            node: node.to_owned(),
            network: network.to_owned(),
            container_id: attachment.container_id.to_string(),
            ifname: attachment.ifname.to_string(),
            since: now(),
            call: Some(call.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)))),
        }
    }

    /// Reads a value; `None` for foreign content.
    pub fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The value.
    pub fn to_value(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts are JSON")
    }

    /// True for this attachment on this network, on any node.
    pub fn is(&self, attachment: &Attachment, network: &str) -> bool {
        self.network == network
            && self.container_id == attachment.container_id.as_str()
            && self.ifname == attachment.ifname.as_str()
    }

    /// The holder, or the foreign content, for messages.
    pub fn describe(value: &[u8]) -> String {
        match Self::parse(value) {
            Some(holder) => format!(
                "reserved to {} {} of network {} on node {}",
                holder.container_id, holder.ifname, holder.network, holder.node
            ),
            None => foreign(value),
        }
    }
}

impl BlockOwner {
    /// The owner of a block that is claimed now.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            since: now(),
        }
    }

    /// Reads a value; `None` for foreign content.
    pub fn parse(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The value.
    pub fn to_value(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts are JSON")
    }

    /// The owner, or the foreign content, for messages.
    pub fn describe(value: &[u8]) -> String {
        match Self::parse(value) {
            Some(owner) => format!("node {}'s", owner.node),
            None => foreign(value),
        }
    }
}

fn foreign(value: &[u8]) -> String {
    format!(
        "held by content that isn't ours: {}",
        cni::Excerpt(&String::from_utf8_lossy(value))
    )
}

/// The current time by the node's clock, to the nanosecond: `2026-11-21T14:38:21.800225123Z`. It
/// is shown to people; no rule depends on it.
pub(crate) fn now() -> String {
    // Times before 1970 can't be formatted.
    let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_nanos(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment() -> Attachment {
        Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        }
    }

    #[test]
    fn a_holder_has_the_keys_of_the_contract_and_foreign_content_is_none() {
        let holder = Holder::new("n1", "net", &attachment(), None);
        let value = String::from_utf8(holder.to_value()).unwrap();
        let start = r#"{"node":"n1","network":"net","containerID":"c1","ifname":"eth0","since":"2"#;
        assert!(value.starts_with(start), "{value}");
        assert_eq!(Holder::parse(value.as_bytes()), Some(holder.clone()));
        assert!(holder.is(&attachment(), "net") && !holder.is(&attachment(), "other"));
        for foreign in ["", "c1\r\neth0", "{}", "[]", r#"{"node":1}"#] {
            assert_eq!(Holder::parse(foreign.as_bytes()), None);
        }
        assert_eq!(
            Holder::describe(b"x\n"),
            "held by content that isn't ours: x"
        );
    }

    #[test]
    fn two_adds_are_told_apart() {
        let [first, second] = [(); 2].map(|()| Holder::new("n1", "net", &attachment(), None));
        assert_ne!(first, second);
    }
}
