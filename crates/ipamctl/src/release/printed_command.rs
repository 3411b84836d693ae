//! The command that releases exactly one attachment.

use crate::node::{NetworkAttachment, Node};
use std::borrow::Cow;

/// The command, with the whole container ID, the network and the interface; for a reservation
/// without an interface, with its address and network.
pub(crate) fn release_command(node: &Node, attachment: &NetworkAttachment<'_>) -> String {
    let mut words = vec!["ipamctl".to_owned()];
    words.extend(node.places.words());
    words.push("release".to_owned());
    if is_released_by_file(node, attachment) {
        words.push("--file-only".to_owned());
    }
    let ip = attachment.ips().next().map(|ip| ip.to_string());
    let ip = ip.unwrap_or_default();
    let (option, name) = match attachment.ifname {
        Some(_) => ("--container", attachment.container),
        None => ("--address", ip.as_str()),
    };
    let mut names = vec![option, name, "--network", attachment.network];
    if let Some(ifname) = attachment.ifname {
        names.extend(["--ifname", ifname]);
    }
    words.extend(names.into_iter().map(str::to_owned));
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// True if no plugin can release it: its chain is unknown, or it has an invalid name.
fn is_released_by_file(node: &Node, attachment: &NetworkAttachment<'_>) -> bool {
    if attachment.ifname.is_none() || attachment.is_shared() {
        return false;
    }
    let is_known = node.network(attachment.network).is_some() || attachment.content().is_some();
    !is_known || attachment.attachment().is_err()
}

/// The word, quoted for a shell.
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
