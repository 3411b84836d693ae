//! The command that releases exactly one attachment.

use shlex::Quoter;

use crate::node::{NetworkAttachment, Node};

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
    let mut names = vec![(option, name), ("--network", attachment.network)];
    names.extend(attachment.ifname.map(|ifname| ("--ifname", ifname)));
    for (option, name) in names {
        // A file may have a name that looks like an option.
        match name.starts_with('-') {
            true => words.push(format!("{option}={name}")),
            false => words.extend([option.to_owned(), name.to_owned()]),
        }
    }
    let quoter = Quoter::new().allow_nul(true);
    let quoted = quoter.join(words.iter().map(String::as_str));
    quoted.expect("only a NUL can't be quoted")
}

/// True if no plugin can release it: its chain is unknown, or it has an invalid name.
fn is_released_by_file(node: &Node, attachment: &NetworkAttachment<'_>) -> bool {
    if attachment.ifname.is_none() || attachment.is_shared() {
        return false;
    }
    let is_known = node.network(attachment.network).is_some() || attachment.content().is_some();
    !is_known || attachment.attachment().is_err()
}
