//! The command that releases an attachment, and nothing else.

use std::borrow::Cow;

use crate::node::Node;
use crate::node::attachment::Attached;

/// The command. It names the container whole, the network and the interface; a reservation
/// without an interface by its address and network.
pub(crate) fn release(node: &Node, it: &Attached<'_>) -> String {
    let mut words = vec!["ipamctl".to_owned()];
    words.extend(node.words());
    words.push("release".to_owned());
    if is_released_by_file(node, it) {
        words.push("--file-only".to_owned());
    }
    let mut name = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
    match (it.ifname, it.addresses().next()) {
        (Some(ifname), _) => {
            name("--container", it.container);
            name("--network", it.network);
            name("--ifname", ifname);
        }
        (None, ip) => {
            let ip = ip.map(|ip| ip.to_string());
            name("--address", &ip.unwrap_or_default());
            name("--network", it.network);
        }
    }
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// True if no plugin can release it: nobody knows which, or it has no valid name.
fn is_released_by_file(node: &Node, it: &Attached<'_>) -> bool {
    if it.ifname.is_none() || it.is_shared() {
        return false;
    }
    let is_known = node.network(it.network).is_some() || it.content().is_some();
    !is_known || it.attachment().is_err()
}

/// The word as a shell reads it.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_as_it_is() {
        for (word, expected) in [
            ("8f3e-a.b_c", "8f3e-a.b_c"),
            ("", "''"),
            ("a b;c", "'a b;c'"),
            ("it's", r"'it'\''s'"),
            ("$(rm)", "'$(rm)'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
