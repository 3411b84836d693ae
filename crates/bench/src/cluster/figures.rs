//! The figures as tables and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::at_once;
use super::blocks::{self, Form};
use super::counters::{PerCall, REQUESTS};
use super::one_at_a_time::OneAtATime;
use super::processes::Processes;
use crate::samples::Samples;
use crate::table::{Table, figure};

/// All figures of a run.
pub(crate) struct Figures {
    pub(crate) whose: String,
    pub(crate) at_once: Vec<at_once::Measured>,
    pub(crate) processes: Processes,
    pub(crate) one_at_a_time: OneAtATime,
    pub(crate) blocks: Vec<blocks::Measured>,
}

impl Figures {
    /// The tables, in the order in which they were measured.
    pub(crate) fn tables(&self) -> Vec<Table> {
        vec![
            self.at_once_table(),
            self.processes_table(),
            self.one_at_a_time_table(),
            self.cost_table(),
            self.blocks_table(),
        ]
    }

    fn at_once_table(&self) -> Table {
        let mut table = Table::new([
            "all at once; medians in ms",
            "bare puts",
            "ADDs",
            "× puts",
            "asked",
            "a put: median",
            "p99",
            "an ADD: median",
            "p99",
        ]);
        for measured in &self.at_once {
            let name = format!(
                "{} callers, {} of each",
                measured.crowd.callers, measured.crowd.calls
            );
            let (puts, adds) = (measured.puts.median(), measured.adds.median());
            let cells = [
                figure(puts, 0),
                figure(adds, 0),
                figure(adds / puts, 2),
                format!("≤ {}", measured.crowd.bound),
                figure(measured.each_put.median(), 0),
                figure(measured.each_put.percentile(99), 0),
                figure(measured.each_add.median(), 0),
                figure(measured.each_add.percentile(99), 0),
            ];
            table.row(name, cells);
        }
        table
    }

    fn processes_table(&self) -> Table {
        let processes = &self.processes;
        let mut table = Table::new(["executables; medians", "ms"]);
        let rows = [
            (
                "1,000 processes at once: VERSION, without etcd",
                &processes.versions,
            ),
            ("1,000 processes at once: ADD", &processes.adds),
            ("one process at a time: ADD", &processes.single_add),
        ];
        for (name, times) in rows {
            table.row(name.to_owned(), [figure(times.median(), 2)]);
        }
        table
    }

    fn one_at_a_time_table(&self) -> Table {
        let calls = &self.one_at_a_time;
        let mut table = Table::new([
            "one at a time; medians in ms",
            "ADD",
            "× with 0 reserved",
            "× a put",
            "DEL",
        ]);
        let put = calls.put.median();
        let empty = calls.levels[0].add.median();
        table.row(
            "a bare put".to_owned(),
            [
                figure(put, 2),
                figure(f64::NAN, 2),
                figure(1.0, 2),
                figure(f64::NAN, 2),
            ],
        );
        for level in &calls.levels {
            let add = level.add.median();
            let cells = [
                figure(add, 2),
                figure(add / empty, 2),
                figure(add / put, 2),
                figure(level.del.median(), 2),
            ];
            table.row(format!("{} of 65,533 reserved", level.reserved), cells);
        }
        table
    }

    fn cost_table(&self) -> Table {
        let header = ["per call"]
            .into_iter()
            .chain(REQUESTS)
            .chain(["bytes received", "bytes sent"]);
        let mut table = Table::new(header);
        let mut row = |name: String, cost: &Option<PerCall>| {
            let Some(cost) = cost else { return };
            let requests = cost.requests.iter().map(|count| figure(*count, 2));
            let bytes = [figure(cost.received, 0), figure(cost.sent, 0)];
            table.row(name, requests.chain(bytes));
        };
        for measured in &self.at_once {
            let callers = measured.crowd.callers;
            row(format!("put, {callers} callers"), &measured.per_put);
            row(format!("ADD, {callers} callers"), &measured.per_add);
        }
        for level in &self.one_at_a_time.levels {
            row(
                format!("ADD alone, {} reserved", level.reserved),
                &level.per_add,
            );
            row(
                format!("DEL alone, {} reserved", level.reserved),
                &level.per_del,
            );
        }
        table
    }

    fn blocks_table(&self) -> Table {
        let mut table = Table::new([
            "ADD of a chain; medians in ms",
            "local pool",
            "blocks",
            "× local",
            "all members stopped",
            "× local then",
        ]);
        for measured in &self.blocks {
            let name = match measured.form {
                Form::OneFile => "in one file, as installed",
                Form::Separate => "separate executables",
            };
            let (local, blocks) = (measured.local.median(), measured.blocks.median());
            let (then, without) = (
                measured.local_then.median(),
                measured.without_members.median(),
            );
            let cells = [
                figure(local, 2),
                figure(blocks, 2),
                figure(blocks / local, 2),
                figure(without, 2),
                figure(without / then, 2),
            ];
            table.row(name.to_owned(), cells);
        }
        table
    }

    /// The same for programs.
    pub(crate) fn to_json(&self) -> Value {
        let cost = |cost: &Option<PerCall>| {
            cost.as_ref().map(|cost| {
                let named = REQUESTS.iter().zip(cost.requests);
                let requests: serde_json::Map<String, Value> = named
                    .map(|(name, count)| ((*name).to_owned(), json!(count)))
                    .collect();
                json!({"requests": requests, "received": cost.received, "sent": cost.sent})
            })
        };
        let at_once = self.at_once.iter().map(|measured| {
            json!({
                "callers": measured.crowd.callers, "calls": measured.crowd.calls,
                "puts": measured.puts.median(), "adds": measured.adds.median(),
                "ratio": measured.adds.median() / measured.puts.median(), "bound": measured.crowd.bound,
                "per_put": cost(&measured.per_put), "per_add": cost(&measured.per_add),
            })
        });
        let levels = self.one_at_a_time.levels.iter().map(|level| {
            json!({
                "reserved": level.reserved, "add": level.add.median(), "del": level.del.median(),
                "per_add": cost(&level.per_add), "per_del": cost(&level.per_del),
            })
        });
        let or_null =
            |samples: &Samples| Some(samples.median()).filter(|median| median.is_finite());
        let blocks = self.blocks.iter().map(|measured| {
            json!({
                "form": format!("{:?}", measured.form),
                "local": measured.local.median(), "blocks": measured.blocks.median(),
                "local_then": or_null(&measured.local_then),
                "without_members": or_null(&measured.without_members),
            })
        });
        json!({
            "cluster": self.whose,
            "unit": "ms",
            "at_once": at_once.collect::<Vec<_>>(),
            "processes": {
                "versions": self.processes.versions.median(),
                "adds": self.processes.adds.median(),
                "single_add": self.processes.single_add.median(),
                "bytes": self.processes.size,
            },
            "one_at_a_time": {
                "put": self.one_at_a_time.put.median(),
                "levels": levels.collect::<Vec<_>>(),
            },
            "blocks": blocks.collect::<Vec<_>>(),
        })
    }
}

/// The explanation of the figures, in front of them.
const EXPLANATION: &str = "\
The cluster: {whose}. Written by `cargo xtask bench cluster --out docs`; with `--endpoints`, `--ca`, `--user`
and `--password-file` it measures an existing cluster, below a separate prefix, and removes its keys at the end.

- **A bare put** is the peer: one key with a value as long as an address's. A put and an ADD each open a connection of their
  own, with TLS, and use the node's token; so both have the same number of connections.
- **All at once**: the callers are threads of one process that call the plugin as a library, since a thousand processes would
  measure the start of processes. All are ready before the first one starts; the time is that of the last one's end. The pool has
  exactly as many addresses as there are calls, so the last callers look for the last addresses.
- **Executables**: what the processes add. VERSION starts as many processes and opens no connection.
- **Blocks**: ADD of the whole chain, as executables, beside the same chain with a local pool, in turn; then both once more while every
  member is stopped with SIGSTOP.
- The members, the callers and whatever else the machine does share its processors: compare ratios, not times.
";

/// A page for the documentation.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explanation = EXPLANATION.replace("{whose}", &self.whose);
        writeln!(f, "# Figures of a cluster's etcd\n\n{explanation}")?;
        let tables: Vec<String> = self.tables().iter().map(Table::to_string).collect();
        f.write_str(&tables.join("\n"))
    }
}
