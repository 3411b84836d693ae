use std::borrow::Cow;
use std::net::IpAddr;

use crate::inventory::NetworkAttachment;
use crate::output::{is_plain, quoted};

/// The command that releases exactly this attachment, with its whole container ID, its network and its
/// interface. An address takes the place of an ID that is missing, that looks like an address, whose
/// interface is unknown, or whose record has other addresses; and of names that can't be printed as they
/// are. `ipamctl` is the text of [`crate::arguments::Sources::command`].
pub(crate) fn release_command(ipamctl: &str, attachment: &NetworkAttachment<'_>) -> String {
    let ifname = attachment.ifname.filter(|ifname| is_plain(ifname));
    let is_whole = ifname.is_some() && !attachment.is_leftover();
    let is_clear = |id: &&str| is_whole && is_plain(id) && id.parse::<IpAddr>().is_err();
    let container = attachment.container.map(Cow::from);
    let ip = || Some(Cow::from(attachment.ips().next()?.to_string()));
    let clear = attachment.container.filter(is_clear).map(Cow::from);
    let target = clear.or_else(ip).or(container).unwrap_or_default();
    let mut words = vec!["release".into()];
    let is_usable = |(_, name): &(&str, &str)| !name.is_empty() && is_plain(name);
    let network = Some(("--network", attachment.network)).filter(is_usable);
    let ifname = ifname.map(|ifname| ("--ifname", ifname));
    for (option, name) in network.into_iter().chain(ifname) {
        // A file may have a name that looks like an option.
        if name.starts_with('-') {
            words.push(format!("{option}={name}").into());
        } else {
            words.extend([option.into(), name.into()]);
        }
    }
    if target.starts_with('-') {
        words.push("--".into());
    }
    words.push(target);
    format!("{ipamctl} {}", quoted(&words))
}
