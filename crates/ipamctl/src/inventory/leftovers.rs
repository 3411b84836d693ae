//! Finds reservations that name an attachment whose whole record has other addresses: an ADD has made
//! them whose record is lost. Another plugin of the conflist may hold them, too.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::{AttachmentRecord, ListedRecord, RecordState, record_of};
use cni::{IpConfig, IpamResult};
use conflist::Problem;

use crate::local_node::LocalNode;
use crate::network::Network;

/// What tells leftovers from addresses of another record.
pub(super) struct Leftovers {
    /// Folders of records of further plugins of the conflists.
    state_dirs: BTreeSet<PathBuf>,
    /// True if a conflist or a folder can't be read: it may have another record.
    is_unknown: bool,
}

impl Leftovers {
    pub(super) fn new(node: &LocalNode, problems: &[Problem]) -> Self {
        let conflists = node.conflists.iter();
        let all = conflists.flat_map(|conflist| Network::each_of(conflist, &node.environment));
        let read = node.state_dirs();
        let state_dirs = all.filter_map(|(_, network)| Some(network.ok()?.state_dir));
        Self {
            state_dirs: state_dirs.filter(|dir| !read.contains(dir)).collect(),
            is_unknown: !problems.is_empty() || !node.problems.is_empty(),
        }
    }

    /// True if this record, the only one of the reservation's attachment, is whole, and has other addresses.
    /// It is read again: since it was listed, the container may have been started again.
    pub(super) fn is_leftover(&self, ip: IpAddr, record: &ListedRecord) -> bool {
        if self.is_unknown || !has_others(record, ip) {
            return false;
        }
        let read = |dir: &Path| record_of(dir, &record.network, &record.attachment);
        let mut others = self.state_dirs.iter();
        matches!(read(record.state_dir()), Ok(Some(now)) if has_others(&now, ip))
            && others.all(|dir| matches!(read(dir), Ok(None)))
    }
}

/// True if the record of an ADD that has ended has addresses, and not this one.
fn has_others(record: &ListedRecord, ip: IpAddr) -> bool {
    // Most records name the address, in its usual spelling: they needn't be parsed.
    let usual = format!("\"{ip}/");
    let is_named = |content: &AttachmentRecord| {
        let mut results = content.delegates.iter().filter_map(|of| of.result.as_ref());
        results.any(|result| result.get().contains(&usual))
    };
    let unnamed = record.usable().filter(|content| !is_named(content));
    let ips = unnamed.and_then(recorded_ips).unwrap_or_default();
    !ips.is_empty() && !ips.contains(&ip.to_canonical())
}

/// The addresses that any delegate of an ADD has answered; `None` if the ADD has not ended, or an
/// answer can't be read.
fn recorded_ips(record: &AttachmentRecord) -> Option<HashSet<IpAddr>> {
    let mut ips = HashSet::new();
    for delegate in &record.delegates {
        let result = IpamResult::read("result", delegate.result.as_deref()?).ok()?;
        let answered = result.ips.iter().map(IpConfig::ip);
        ips.extend(answered.map(|ip| ip.to_canonical()));
    }
    (record.state == RecordState::Added).then_some(ips)
}
