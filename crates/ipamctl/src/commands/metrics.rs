//! `ipamctl metrics`: Prometheus' text format, and the same samples as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};

use cni::NetworkName;
use serde::{Serialize, Serializer};

use crate::commands::pools::rows;
use crate::exit_status::Status;
use crate::node::Node;
use crate::node::held_address::HoldingState;
use crate::node::inventory::{Extent, Inventory};
use crate::output::{Output, warn};

/// The metrics.
#[derive(Default)]
struct Metrics(Vec<Family>);

/// The samples of one name. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

#[derive(Serialize)]
struct Sample {
    #[serde(serialize_with = "as_object")]
    labels: Vec<(&'static str, String)>,
    /// Without a fraction; as text, since it may exceed 2^53.
    value: String,
}

pub(crate) fn run(node: &Node, output: Output) -> anyhow::Result<Status> {
    let inventory = Inventory::read(node, Extent::All);
    inventory.warn();
    let mut metrics = Metrics::default();
    pools(&inventory, &mut metrics);
    records(&inventory, &mut metrics);
    let unread = reclaim(&inventory, &mut metrics);
    unread.iter().for_each(|reason| warn(reason));
    let problems = node.problems.len()
        + inventory.problems.len()
        + inventory.pools.problems.len()
        + unread.len();
    metrics.family("ipam_problems", "Files and folders that could not be read.");
    metrics.sample(&[], &problems);
    if output.json {
        Output::json(&metrics.0)?;
    } else {
        output.lines(metrics.text().lines())?;
    }
    Ok(Status::Fine)
}

fn pools(inventory: &Inventory, metrics: &mut Metrics) {
    let rows = rows(inventory);
    for (name, help, value) in [
        (
            "ipam_pool_addresses",
            "Addresses that the pool gives without request.",
            0,
        ),
        ("ipam_pool_reserved_addresses", "Reserved ones of these.", 1),
        ("ipam_pool_free_addresses", "Free ones of these.", 2),
        (
            "ipam_pool_excluded_addresses",
            "Addresses that the pool gives on request only.",
            3,
        ),
    ] {
        metrics.family(name, help);
        for row in &rows {
            let value = [row.size, row.reserved, row.free, row.excluded][value];
            let networks: Vec<&str> = row.networks.iter().map(NetworkName::as_str).collect();
            let labels = [
                ("network", networks.join(",")),
                ("pool", row.pool.clone().unwrap_or_default()),
                ("ranges", row.ranges.clone().unwrap_or_default()),
                ("directory", row.directory.clone()),
            ];
            if let Some(value) = value {
                metrics.sample(&labels, &value);
            }
        }
    }
}

fn records(inventory: &Inventory, metrics: &mut Metrics) {
    let name = "ipam_attachment_records";
    metrics.family(name, "Records of attachments, by state.");
    let mut networks: BTreeMap<&str, Option<SystemTime>> = BTreeMap::new();
    for record in &inventory.records {
        let oldest = networks.entry(record.network.as_str()).or_default();
        let Ok(content) = &record.listed.content else {
            continue;
        };
        if HoldingState::of_record(&record.listed) != HoldingState::Added {
            let since = content.since();
            *oldest = Some(oldest.map_or(since, |it| it.min(since)));
        }
    }
    let states = inventory.states();
    for network in networks.keys() {
        for state in [
            HoldingState::Adding,
            HoldingState::Added,
            HoldingState::Deleting,
            HoldingState::Broken,
        ] {
            let count = states.get(&(network, state)).copied().unwrap_or_default();
            let labels = [
                ("network", (*network).to_owned()),
                ("state", state.as_str().to_owned()),
            ];
            metrics.sample(&labels, &count);
        }
    }
    let name = "ipam_oldest_pending_record_timestamp_seconds";
    metrics.family(name, "Start of the oldest ADD or DEL that has not ended.");
    for (network, oldest) in networks {
        if let Some(oldest) = oldest {
            metrics.sample(&[("network", network.to_owned())], &seconds(oldest));
        }
    }
}

/// The last time that a network released its reservations from before a boot. Returns the
/// reasons why it is not known of some.
fn reclaim(inventory: &Inventory, metrics: &mut Metrics) -> BTreeSet<String> {
    let (mut found, mut unread) = (Vec::new(), BTreeSet::new());
    for placed in &inventory.pools.all {
        for network in &placed.networks {
            let last = reservations::view::last_reclaim(&placed.directory, network.as_str());
            let directory = placed.directory.display();
            let last = match last {
                Ok(Some(last)) => last,
                Ok(None) => continue,
                // Nothing was ever reserved there.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    unread.insert(format!("{directory}: last reclaim of {network}: {error}"));
                    continue;
                }
            };
            let labels = vec![
                ("network", network.to_string()),
                ("directory", directory.to_string()),
            ];
            if !found.iter().any(|(known, _)| *known == labels) {
                found.push((labels, last));
            }
        }
    }
    let name = "ipam_reclaim_timestamp_seconds";
    metrics.family(name, "Last release of reservations from before a boot.");
    for (labels, last) in &found {
        if let Some(time) = last.time {
            metrics.sample(labels, &seconds(time));
        }
    }
    let name = "ipam_reclaim_kept_reservations";
    metrics.family(name, "Reservations that this release found and kept.");
    for (labels, last) in &found {
        metrics.sample(labels, &last.kept);
    }
    unread
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

impl Metrics {
    /// Begins a family of gauges.
    fn family(&mut self, name: &'static str, help: &'static str) {
        self.0.push(Family {
            name,
            help,
            samples: Vec::new(),
        });
    }

    /// Adds a sample to the family that was begun last.
    fn sample(&mut self, labels: &[(&'static str, String)], value: &impl ToString) {
        if let Some(family) = self.0.last_mut() {
            family.samples.push(Sample {
                labels: labels.to_vec(),
                value: value.to_string(),
            });
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Family {
            name,
            help,
            samples,
        } in &self.0
        {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
            for Sample { labels, value } in samples {
                let labels: Vec<String> = labels
                    .iter()
                    .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
                    .collect();
                let labels = match labels[..] {
                    [] => String::new(),
                    _ => format!("{{{}}}", labels.join(",")),
                };
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }
}

fn as_object<S: Serializer>(
    labels: &[(&'static str, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(key, value)| (key, value)))
}

/// A label's value as the format has it.
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
        let mut metrics = Metrics::default();
        metrics.family("a_b", "What it is.");
        metrics.sample(&[("x", "1\"\\\n".to_owned())], &7);
        metrics.sample(&[], &8);
        assert_eq!(
            metrics.text(),
            "# HELP a_b What it is.\n# TYPE a_b gauge\na_b{x=\"1\\\"\\\\\\n\"} 7\na_b 8\n"
        );
    }
}
