//! Memory of the API server and time of its lists, with all addresses of a run.

use std::time::Instant;

use anyhow::{Result, anyhow};
use etcd::Client;
use harness::{metrics_of, sum_of_metric};
use kubernetes::Resource;
use serde_json::{Value, json};

use super::counters::ETCD;
use super::filling::{settings, stored_address};
use super::target::Kubernetes;
use crate::cluster::target::Target;
use crate::samples::Samples;
use crate::table::{Table, figure};

const ROUNDS: usize = 5;

/// The figures with this number of addresses.
pub(super) struct Measured {
    addresses: usize,
    /// Bytes of an address in etcd.
    bytes: usize,
    /// Bytes of `managedFields` among these.
    managed_fields: usize,
    /// Resident memory in MiB.
    api_server: f64,
    etcd: f64,
    /// Size of etcd's database in MiB.
    database: f64,
    all: Samples,
    names: Samples,
    of_node: Samples,
}

pub(super) fn measure(target: &Kubernetes) -> Result<Measured> {
    let settings = settings()?;
    let reached: &dyn Target = target;
    reached.inside(|| target.write_bare("scale"))?;
    // The metrics of the API server are read from any network namespace.
    let server = target.api.kubectl(&["get", "--raw", "/metrics"]);
    reached.inside(|| {
        let list = |labels: Option<&str>, only_metadata: bool| -> Result<(usize, Samples)> {
            let (mut times, mut number) = (Samples::default(), 0);
            for _ in 0..ROUNDS {
                let started = Instant::now();
                let listed = target
                    .client()
                    .list(Resource::Address, labels, only_metadata);
                number = listed.map_err(|error| anyhow!("{error}"))?.items.len();
                times.push(started.elapsed());
            }
            Ok((number, times))
        };
        let (addresses, all) = list(None, false)?;
        let (_, names) = list(None, true)?;
        let (_, of_node) = list(Some("ipam-delegated.io/node=bench-node-2"), false)?;
        let mut client = Client::new(&settings, None);
        let stored = stored_address(&mut client)?;
        let etcd = metrics_of(ETCD)?;
        let mib = |text: &str, metric: &str| sum_of_metric(text, metric, &[]) / 1024.0 / 1024.0;
        Ok(Measured {
            addresses,
            bytes: stored.to_string().len(),
            managed_fields: stored["metadata"]["managedFields"].to_string().len(),
            api_server: mib(&server, "process_resident_memory_bytes"),
            etcd: mib(&etcd, "process_resident_memory_bytes"),
            database: mib(&etcd, "etcd_mvcc_db_total_size_in_bytes"),
            all,
            names,
            of_node,
        })
    })
}

impl Measured {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "addresses": self.addresses,
            "bytes_of_an_address": self.bytes,
            "bytes_of_managed_fields": self.managed_fields,
            "api_server_mib": self.api_server,
            "etcd_mib": self.etcd,
            "database_mib": self.database,
            "list_of_all": self.all.median(),
            "list_of_all_names": self.names.median(),
            "list_of_a_node": self.of_node.median(),
        })
    }
}

/// The figures, a column for each number of addresses.
pub(super) fn table(all: &[&Measured]) -> Table {
    let header = all
        .iter()
        .map(|measured| format!("{} addresses", measured.addresses));
    let mut table = Table::new(std::iter::once("what is held and listed".to_owned()).chain(header));
    let mut row = |name: &str, digits: usize, value: &dyn Fn(&Measured) -> f64| {
        let cells = all.iter().map(|measured| figure(value(measured), digits));
        table.row(name.to_owned(), cells);
    };
    row("bytes of an address in etcd", 0, &|of| of.bytes as f64);
    row("of these managedFields", 0, &|of| of.managed_fields as f64);
    row("etcd's database, MiB", 0, &|of| of.database);
    row("etcd's memory, MiB", 0, &|of| of.etcd);
    row("API server's memory, MiB", 0, &|of| of.api_server);
    row("a list of all addresses, ms", 0, &|of| of.all.median());
    row("a list of all names, ms", 0, &|of| of.names.median());
    row("a list of a node's addresses, ms", 0, &|of| {
        of.of_node.median()
    });
    table
}
