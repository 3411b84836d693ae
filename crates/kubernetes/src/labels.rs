//! Labels of `Address` objects, for lists and for people. No rule relies on them.

use std::collections::BTreeMap;

use cluster::Holder;
use cni::Attachment;
use sha2::{Digest, Sha256};

/// Prefix of the keys.
const PREFIX: &str = "ipam-delegated.io/";

/// Longest value of a label.
const LONGEST_VALUE: usize = 63;

/// The labels of an address that this holder claims.
pub(crate) fn labels(holder: &Holder) -> BTreeMap<String, String> {
    let attachment = hash_of(
        &holder.node,
        &holder.network,
        &holder.container_id,
        &holder.ifname,
    );
    let mut labels = BTreeMap::from([
        (format!("{PREFIX}pool"), value(&holder.pool)),
        (format!("{PREFIX}node"), value(&holder.node)),
        (format!("{PREFIX}network"), value(&holder.network)),
        (format!("{PREFIX}attachment"), attachment),
    ]);
    let pod = [("namespace", &holder.namespace), ("pod", &holder.pod)];
    for (key, text) in pod {
        if let Some(text) = text {
            labels.insert(format!("{PREFIX}{key}"), value(text));
        }
    }
    labels
}

/// Value of the label `attachment` of an attachment's addresses.
pub(crate) fn attachment_of(node: &str, network: &str, attachment: &Attachment) -> String {
    hash_of(
        node,
        network,
        attachment.container_id.as_str(),
        attachment.ifname.as_str(),
    )
}

fn hash_of(node: &str, network: &str, container_id: &str, ifname: &str) -> String {
    hash(&[node, network, container_id, ifname].join("\0"))
}

/// A selector of the objects whose label has this value.
pub(crate) fn selector(key: &str, text: &str) -> String {
    format!("{PREFIX}{key}={}", value(text))
}

/// The text, or its hash if it can't be a label's value.
fn value(text: &str) -> String {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_value = text.len() <= LONGEST_VALUE
        && text.chars().all(is_inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    if is_value {
        text.to_owned()
    } else {
        hash(text)
    }
}

/// The first half of the text's SHA-256, in hexadecimal digits.
fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_label_can_have_is_kept() {
        for text in ["web", "node-1.example.org", "a_b"] {
            assert_eq!(value(text), text);
        }
        for text in ["", "-a", "a ", &"n".repeat(64)] {
            assert_eq!(value(text).len(), 32, "{text:?}");
        }
    }

    #[test]
    fn attachments_that_differ_in_one_part_have_other_labels() {
        let first = hash_of("n", "net", "c1", "eth0");
        for other in [
            hash_of("m", "net", "c1", "eth0"),
            hash_of("n", "nat", "c1", "eth0"),
            hash_of("n", "net", "c2", "eth0"),
            hash_of("n", "net", "c1", "eth1"),
        ] {
            assert_ne!(first, other);
        }
    }
}
