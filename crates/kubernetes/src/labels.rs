//! Labels of `Address` objects, for lists and for people. What a list finds is read before it is released.

use std::collections::BTreeMap;

use cluster::{Holder, hash};
use cni::Attachment;

/// Prefix of the keys.
const PREFIX: &str = "ipam-delegated.io/";

/// Longest value of a label.
const LONGEST_VALUE: usize = 63;

/// The labels of an address that this holder claims.
pub(crate) fn labels(holder: &Holder) -> BTreeMap<String, String> {
    let mut labels = vec![
        ("pool", value(&holder.pool)),
        ("network", value(&holder.network)),
    ];
    if let Some(hash) = holder.owner_hash() {
        labels.push(("owner", hash));
    } else {
        let (node, network) = (&*holder.node, &*holder.network);
        let attachment = hash(&[node, network, &holder.container_id, &holder.ifname]);
        labels.push(("node", value(node)));
        labels.push(("attachment", attachment));
    }
    for (key, text) in [("namespace", &holder.namespace), ("pod", &holder.pod)] {
        labels.extend(text.as_ref().map(|text| (key, value(text))));
    }
    let prefixed = |(key, value)| (format!("{PREFIX}{key}"), value);
    labels.into_iter().map(prefixed).collect()
}

/// Value of the label `attachment` of an attachment's addresses.
pub(crate) fn attachment_of(node: &str, network: &str, attachment: &Attachment) -> String {
    let (id, ifname) = (&attachment.container_id, &attachment.ifname);
    hash(&[node, network, id.as_str(), ifname.as_str()])
}

/// A selector of the objects whose labels have these values.
pub(crate) fn selector(labels: &[(&str, &str)]) -> String {
    let one = |(key, text): &(&str, &str)| format!("{PREFIX}{key}={}", value(text));
    labels.iter().map(one).collect::<Vec<_>>().join(",")
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
        hash(&[text])
    }
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
        let first = hash(&["n", "net", "c1", "eth0"]);
        for other in [
            hash(&["m", "net", "c1", "eth0"]),
            hash(&["n", "nat", "c1", "eth0"]),
            hash(&["n", "net", "c2", "eth0"]),
            hash(&["n", "net", "c1", "eth1"]),
        ] {
            assert_ne!(first, other);
        }
    }
}
