//! Leases of DHCP: what a record knows of them, whether their addresses are at the interface, and
//! whether the daemon that renews them runs.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use chain::record::{AttachmentRecord, ListedRecord, Namespace, RecordState};
use ipam_da_dhcp::{FOREVER, Lease, on_link};

use crate::output::times::{ago, rounded};

/// The allocator that takes leases.
pub(crate) const IPAM_DA_DHCP: &str = "ipam-da-dhcp";

/// The daemon that renews them. The kernel's names of processes have 15 bytes, as many as this.
pub(crate) const IPAM_DHCP_RENEW: &str = "ipam-dhcp-renew";

/// The leases of a record; none if its answer isn't recorded or can't be read.
pub(crate) fn recorded_leases(record: &AttachmentRecord) -> Vec<Lease> {
    Lease::of_answer(record.answer()).unwrap_or_default()
}

/// A lease for people.
pub(crate) fn lease_text(lease: &Lease) -> String {
    let (address, server, client) = (lease.address, &lease.server, &lease.client.client_id);
    let lasts = match lease.seconds {
        FOREVER => "without an end".to_owned(),
        seconds => format!("for {}", rounded(Duration::from_secs(seconds.into()))),
    };
    let start = humantime::parse_rfc3339(&lease.start);
    let start = start.map_or_else(|_| "?".to_owned(), |start| ago(start, SystemTime::now()));
    format!("{address} by {server}, client {client}, given {start} {lasts}")
}

/// The leased addresses of an attachment in use that aren't at its interface any more; an error if
/// that is unknown.
pub(crate) fn lost_addresses(record: &ListedRecord) -> Result<Vec<IpAddr>, String> {
    let is_added = |content: &&AttachmentRecord| content.state == RecordState::Added;
    let added = record.usable().filter(is_added);
    let Some(content) = added.filter(|content| content.namespace() == Namespace::There) else {
        return Ok(Vec::new());
    };
    let leases = recorded_leases(content);
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let name = record.attachment.ifname.as_str();
    let found = on_link(&content.netns, name, |link| {
        let found = leases.iter().map(|lease| link.address(lease.address));
        found.collect::<io::Result<Vec<_>>>()
    });
    let unknown = |error| format!("interface {name}: {error}");
    let found = found.and_then(Option::transpose).map_err(unknown)?;
    let found = found.into_iter().flatten().flatten();
    let there: Vec<IpAddr> = found.map(|(net, _)| net.addr()).collect();
    let leased = leases.into_iter().map(|lease| lease.address);
    Ok(leased.filter(|ip| !there.contains(ip)).collect())
}

/// True if a process of the renewing daemon is visible here.
pub(crate) fn is_renewer_running() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("comm")).ok())
        .any(|name| name.trim_end() == IPAM_DHCP_RENEW)
}
