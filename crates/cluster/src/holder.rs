//! Values: who holds an address, who owns a block.

use cni::Attachment;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Since;

/// The value of an address key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The node that gave it.
    pub node: String,
    /// The network.
    pub network: String,
    /// The container.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The interface in the container.
    pub ifname: String,
    /// The node's time of the ADD.
    pub since: String,
    /// The call that reserved it: the chain's call, or a random text. `None` in a value that
    /// an earlier release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

/// The value of a block's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockOwner {
    /// The node.
    pub node: String,
    /// The node's time of the claim.
    pub since: String,
}

impl Holder {
    /// The holder of an ADD that starts now, for this call of the chain.
    pub fn new(node: &str, network: &str, attachment: &Attachment, call: Option<String>) -> Self {
        Self {
            node: node.to_owned(),
            network: network.to_owned(),
            container_id: attachment.container_id.to_string(),
            ifname: attachment.ifname.to_string(),
            since: Since::now().as_str().to_owned(),
            call: Some(call.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)))),
        }
    }

    /// Reads a value; `None` for foreign content.
    pub fn parse(value: &[u8]) -> Option<Self> {
        parse(value)
    }

    /// The value.
    pub fn to_value(&self) -> Vec<u8> {
        to_value(self)
    }

    /// True for this attachment on this network, whatever node gave the address.
    pub fn is(&self, attachment: &Attachment, network: &str) -> bool {
        self.network == network
            && self.container_id == attachment.container_id.as_str()
            && self.ifname == attachment.ifname.as_str()
    }

    /// The holder, or the content that is none, for people.
    pub fn describe(value: &[u8]) -> String {
        match Self::parse(value) {
            Some(it) => format!(
                "reserved to {} {} of network {} on node {}",
                it.container_id, it.ifname, it.network, it.node
            ),
            None => format!(
                "held by content that isn't ours: {}",
                cni::Excerpt(&String::from_utf8_lossy(value))
            ),
        }
    }
}

impl BlockOwner {
    /// The owner of a block that is claimed now.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            since: Since::now().as_str().to_owned(),
        }
    }

    /// Reads a value; `None` for foreign content.
    pub fn parse(value: &[u8]) -> Option<Self> {
        parse(value)
    }

    /// The value.
    pub fn to_value(&self) -> Vec<u8> {
        to_value(self)
    }
}

fn parse<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}

fn to_value(it: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(it).expect("texts are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_the_keys_of_the_contract_and_foreign_content_is_none() {
        let attachment = Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let holder = Holder::new("n1", "net", &attachment, None);
        let value = String::from_utf8(holder.to_value()).unwrap();
        let start = r#"{"node":"n1","network":"net","containerID":"c1","ifname":"eth0","since":"2"#;
        assert!(value.starts_with(start), "{value}");
        assert_eq!(Holder::parse(value.as_bytes()), Some(holder.clone()));
        assert!(holder.is(&attachment, "net") && !holder.is(&attachment, "other"));
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
        let attachment = Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let [first, second] = [(); 2].map(|()| Holder::new("n1", "net", &attachment, None));
        assert_ne!(first, second);
    }
}
