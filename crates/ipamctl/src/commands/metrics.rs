//! `ipamctl metrics`: Prometheus' text format, and the same samples as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use chain::record::{AttachmentRecord, ListedRecord, RecordState};
use cni::NetworkName;
use reservations::view::last_reclaim;
use serde::{Serialize, Serializer};

use crate::context::Context;
use crate::node::{Extent, HeldState, Inventory, pool_usages};
use crate::output::{joined, warn};

/// The samples of one gauge. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
struct Family {
    name: String,
    help: &'static str,
    samples: Vec<Sample>,
}

#[derive(Serialize)]
struct Sample {
    #[serde(serialize_with = "as_object")]
    labels: Vec<Label>,
    /// Without a fraction; as text, since it may exceed 2^53.
    value: String,
}

type Label = (&'static str, String);

pub(crate) fn run(context: &Context<'_>) -> Result<bool> {
    let inventory = Inventory::read(&context.node(), Extent::All);
    let mut families = Vec::from(pools(&inventory));
    families.extend(records(&inventory));
    let (reclaims, unread) = reclaims(&inventory);
    families.extend(reclaims);
    unread.iter().for_each(warn);
    let mut problems = Family::new("problems", "Files and folders that could not be read.");
    problems.add(&[], Some(inventory.unread + unread.len()));
    families.push(problems);
    let lines = || families.iter().flat_map(Family::lines).collect();
    context.output.print(&families, lines)?;
    Ok(false)
}

fn pools(inventory: &Inventory) -> [Family; 4] {
    let mut families = [
        Family::new(
            "pool_addresses",
            "Addresses that the pool gives without request.",
        ),
        Family::new("pool_reserved_addresses", "Reserved ones of these."),
        Family::new("pool_free_addresses", "Free ones of these."),
        Family::new(
            "pool_excluded_addresses",
            "Addresses that the pool gives on request only.",
        ),
    ];
    for pool in pool_usages(inventory) {
        let labels = [
            ("network", joined(&pool.networks, ",")),
            ("pool", pool.pool.unwrap_or_default()),
            ("ranges", pool.ranges.unwrap_or_default()),
            ("directory", pool.directory),
        ];
        let counts = [pool.size, pool.reserved, pool.free, pool.excluded];
        for (family, count) in families.iter_mut().zip(counts) {
            family.add(&labels, count);
        }
    }
    families
}

fn records(inventory: &Inventory) -> [Family; 2] {
    let mut counts = Family::new("attachment_records", "Records of attachments, by state.");
    let mut pending = Family::new(
        "oldest_pending_record_timestamp_seconds",
        "Start of the oldest ADD or DEL that has not ended.",
    );
    let mut networks: BTreeMap<&NetworkName, Vec<&ListedRecord>> = BTreeMap::new();
    for record in &inventory.records {
        networks.entry(&record.network).or_default().push(record);
    }
    for (network, records) in networks {
        let network = ("network", network.to_string());
        for state in HeldState::OF_RECORDS {
            let of_state = records
                .iter()
                .filter(|record| HeldState::of(record) == state);
            let labels = [network.clone(), ("state", state.to_string())];
            counts.add(&labels, Some(of_state.count()));
        }
        let contents = records.iter().flat_map(|record| &record.content);
        let unended = contents.filter(|content| content.state != RecordState::Added);
        let oldest = unended.map(AttachmentRecord::since).min();
        pending.add(&[network], oldest.map(seconds));
    }
    [counts, pending]
}

/// The last release of reservations from before a boot, by network, and the reasons why some are
/// unknown.
fn reclaims(inventory: &Inventory) -> ([Family; 2], BTreeSet<String>) {
    let mut times = Family::new(
        "reclaim_timestamp_seconds",
        "Last release of reservations from before a boot.",
    );
    let mut kept = Family::new(
        "reclaim_kept_reservations",
        "Reservations that this release found and kept.",
    );
    let mut unread = BTreeSet::new();
    let pools = inventory.pools.all.iter();
    let places = pools.flat_map(|placed| {
        let networks = placed.networks.iter();
        networks.map(|network| (&placed.directory, network))
    });
    for (directory, network) in places.collect::<BTreeSet<_>>() {
        let shown = directory.display().to_string();
        match last_reclaim(directory, network.as_str()) {
            Ok(Some(last)) => {
                let labels = [("network", network.to_string()), ("directory", shown)];
                times.add(&labels, last.time.map(seconds));
                kept.add(&labels, Some(last.kept.len()));
            }
            Ok(None) => {}
            // The network has no reservation yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                unread.insert(format!("{shown}: last reclaim of {network}: {error}"));
            }
        }
    }
    ([times, kept], unread)
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

impl Family {
    /// A family without samples; its name follows `ipam_`.
    fn new(name: &str, help: &'static str) -> Self {
        Self {
            name: format!("ipam_{name}"),
            help,
            samples: Vec::new(),
        }
    }

    /// Adds a sample, unless its value is unknown.
    fn add(&mut self, labels: &[Label], value: Option<impl ToString>) {
        self.samples.extend(value.map(|value| Sample {
            labels: labels.to_vec(),
            value: value.to_string(),
        }));
    }

    /// The lines of the text format.
    fn lines(&self) -> Vec<String> {
        let Self { name, help, .. } = self;
        let mut lines = vec![
            format!("# HELP {name} {help}"),
            format!("# TYPE {name} gauge"),
        ];
        lines.extend(self.samples.iter().map(|Sample { labels, value }| {
            let labels = labels.iter();
            let pairs = labels.map(|(key, value)| format!("{key}=\"{}\"", escaped(value)));
            match joined(pairs, ",") {
                pairs if pairs.is_empty() => format!("{name} {value}"),
                pairs => format!("{name}{{{pairs}}} {value}"),
            }
        }));
        lines
    }
}

fn as_object<S: Serializer>(labels: &[Label], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(key, value)| (key, value)))
}

/// A label's value, escaped for the format.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_help_type_and_samples_with_escaped_labels() {
        let mut family = Family::new("b", "What it is.");
        family.add(&[("x", "1\"\\\n".to_owned())], Some(7));
        family.add(&[], Some(8));
        family.add(&[("y", String::new())], None::<u8>);
        assert_eq!(
            family.lines(),
            [
                "# HELP ipam_b What it is.",
                "# TYPE ipam_b gauge",
                "ipam_b{x=\"1\\\"\\\\\\n\"} 7",
                "ipam_b 8"
            ]
        );
    }
}
