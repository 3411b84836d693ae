//! The command that releases exactly one attachment.

use std::net::IpAddr;

use shlex::Quoter;

use crate::inventory::NetworkAttachment;

/// The command, with the whole container ID, the network and the interface. An address takes the
/// place of an ID that is missing, that looks like an address, or whose interface is unknown.
/// `places` are the words of [`crate::arguments::Places`].
pub(crate) fn release_command(places: &[String], attachment: &NetworkAttachment<'_>) -> String {
    let is_clear = |id: &&str| attachment.ifname.is_some() && id.parse::<IpAddr>().is_err();
    let container = attachment.container.filter(is_clear);
    let ip = attachment.ips().next().map(|ip| ip.to_string());
    let named = container.or(ip.as_deref()).or(attachment.container);
    let target = named.unwrap_or_default();
    let mut words = vec!["ipamctl".to_owned()];
    words.extend_from_slice(places);
    words.push("release".to_owned());
    let network = Some(("--network", attachment.network)).filter(|(_, name)| !name.is_empty());
    let ifname = attachment.ifname.map(|ifname| ("--ifname", ifname));
    for (option, name) in network.into_iter().chain(ifname) {
        // A file may have a name that looks like an option.
        if name.starts_with('-') {
            words.push(format!("{option}={name}"));
        } else {
            words.extend([option.to_owned(), name.to_owned()]);
        }
    }
    if target.starts_with('-') {
        words.push("--".to_owned());
    }
    words.push(target.to_owned());
    let quoter = Quoter::new().allow_nul(true);
    let quoted = quoter.join(words.iter().map(String::as_str));
    quoted.expect("only a NUL can't be quoted")
}
