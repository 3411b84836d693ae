//! `ipamctl metrics`: pools, records and leases in Prometheus' text format, or the same samples as JSON.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use anyhow::{Result, ensure};
use chain::record::RecordState;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Registry, TextEncoder, register_gauge_vec_with_registry as gauge};
use serde_json::{Value, json};

use crate::Context;
use crate::inventory::{Inventory, NodeScope, RowState};
use crate::leases::lost_addresses;
use crate::output::joined;
use crate::usage::{PoolUsage, usages};

pub(crate) fn run(context: &Context<'_>) -> Result<bool> {
    let inventory = Inventory::read(&context.node(), NodeScope::CountsOnly);
    let registry = Registry::new_custom(Some("ipam".to_owned()), None)?;
    pools(&inventory, &registry)?;
    records(&inventory, &registry)?;
    leases(&inventory, &registry)?;
    let help = "Files and folders that could not be read.";
    let problems = gauge!("problems", help, &[], registry)?;
    set(&problems, &[], inventory.unread as u128);
    let families = registry.gather();
    let text = TextEncoder::new().encode_to_string(&families)?;
    let samples: Vec<Value> = families.iter().flat_map(samples).collect();
    context.print(&samples, || text.lines())?;
    let mut rows = inventory.rows.iter();
    let is_read = inventory.has_reservations() || rows.any(|row| row.state != RowState::Unreadable);
    let unread = "no reservation and no record could be read";
    ensure!(is_read || inventory.problems.is_empty(), unread);
    Ok(false)
}

/// The samples of a metric, for programs. The keys are documented, and don't change their meaning.
fn samples(family: &MetricFamily) -> impl Iterator<Item = Value> {
    family.get_metric().iter().map(|metric| {
        let labels = metric.get_label().iter();
        let labels: BTreeMap<_, _> = labels.map(|label| (label.name(), label.value())).collect();
        let value = metric.get_gauge().get_value();
        json!({"metric": family.name(), "labels": labels, "value": value})
    })
}

/// Sets the sample with these labels. The format has floating-point numbers.
fn set(gauge: &GaugeVec, labels: &[&str], value: u128) {
    gauge.with_label_values(labels).set(value as f64);
}

fn pools(inventory: &Inventory, registry: &Registry) -> Result<()> {
    let usages = usages(inventory);
    let labels = ["network", "pool", "ranges", "directory"];
    let add = |name, help, count: fn(&PoolUsage) -> Option<u128>| -> Result<()> {
        let gauge = gauge!(name, help, &labels, registry)?;
        for usage in &usages {
            // An unknown count has no sample.
            let Some(value) = count(usage) else { continue };
            let network = joined(&usage.networks, ",");
            let pool = usage.pool.as_deref().unwrap_or_default();
            let ranges = usage.ranges.as_deref().unwrap_or_default();
            set(&gauge, &[&network, pool, ranges, &usage.directory], value);
        }
        Ok(())
    };
    let help = "Addresses that the pool gives without request.";
    add("pool_addresses", help, |usage| usage.size)?;
    let help = "Reserved ones of these.";
    add("pool_reserved_addresses", help, |usage| usage.reserved)?;
    let help = "Free ones of these.";
    add("pool_free_addresses", help, |usage| usage.free)?;
    let help = "Addresses that the pool gives on request only.";
    add("pool_excluded_addresses", help, |usage| usage.excluded)
}

fn leases(inventory: &Inventory, registry: &Registry) -> Result<()> {
    let help = "Addresses of DHCP leases that are gone from their interfaces.";
    let counts = gauge!("lost_leases", help, &["network"], registry)?;
    for record in &inventory.records {
        for _ in lost_addresses(record).into_iter().flatten() {
            counts.with_label_values(&[record.network.as_str()]).inc();
        }
    }
    Ok(())
}

fn records(inventory: &Inventory, registry: &Registry) -> Result<()> {
    let help = "Records of attachments, by state.";
    let counts = gauge!("attachment_records", help, &["network", "state"], registry)?;
    let name = "oldest_pending_record_timestamp_seconds";
    let help = "Start of the oldest ADD or DEL that has not ended.";
    let pending = gauge!(name, help, &["network"], registry)?;
    let mut oldest = BTreeMap::new();
    for record in inventory.records.iter().chain(&inventory.endpoints) {
        let network = record.network.as_str();
        let state = RowState::of(record).to_string();
        counts.with_label_values(&[network, &state]).inc();
        let content = record.usable();
        if let Some(content) = content.filter(|content| content.state != RecordState::Added) {
            let since = oldest.entry(network).or_insert(content.since());
            *since = content.since().min(*since);
        }
    }
    for (network, since) in oldest {
        let seconds = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        set(&pending, &[network], seconds.as_secs().into());
    }
    Ok(())
}
