//! The figures as tables and as JSON.

use serde_json::{Value, json};

use super::at_once;
use super::blocks::{self, Form};
use super::one_at_a_time::OneAtATime;
use super::processes::Processes;
use super::target::Words;
use crate::samples::Samples;
use crate::table::{Table, figure};

/// All figures of a run.
pub(crate) struct Figures {
    pub(crate) words: &'static Words,
    pub(crate) whose: String,
    pub(crate) at_once: Vec<at_once::Measured>,
    pub(crate) processes: Processes,
    pub(crate) one_at_a_time: OneAtATime,
    pub(crate) blocks: Vec<blocks::Measured>,
}

impl Figures {
    /// The tables, in the order of the measurements.
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
        let write = self.words.write;
        let mut table = Table::new([
            "all at once; medians in ms".to_owned(),
            format!("bare {write}s"),
            "ADDs".to_owned(),
            format!("× {write}s"),
            "asked".to_owned(),
            "× in the first round".to_owned(),
            format!("a {write}: median"),
            "p99".to_owned(),
            "an ADD: median".to_owned(),
            "p99".to_owned(),
        ]);
        for measured in &self.at_once {
            let name = format!(
                "{} callers, {} of each",
                measured.crowd.callers, measured.crowd.calls
            );
            let (writes, adds) = (measured.writes.median(), measured.adds.median());
            let cells = [
                figure(writes, 0),
                figure(adds, 0),
                figure(adds / writes, 2),
                format!("≤ {}", measured.crowd.bound),
                figure(measured.adds.first() / measured.writes.first(), 2),
                figure(measured.each_write.median(), 0),
                figure(measured.each_write.percentile(99), 0),
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
                "1,000 processes at once: VERSION, without a request",
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
        let name = self.words.write;
        let mut table = Table::new([
            "one at a time; medians in ms".to_owned(),
            "ADD".to_owned(),
            "× with 0 reserved".to_owned(),
            format!("× a {name}"),
            "DEL".to_owned(),
        ]);
        let write = calls.write.median();
        let empty = calls.levels[0].add.median();
        table.row(
            format!("a bare {name}"),
            [
                figure(write, 2),
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
                figure(add / write, 2),
                figure(level.del.median(), 2),
            ];
            table.row(format!("{} of 65,533 reserved", level.reserved), cells);
        }
        table
    }

    fn cost_table(&self) -> Table {
        let costs = self.words.costs;
        let header = costs.iter().map(|cost| cost.name);
        let mut table = Table::new(["per call"].into_iter().chain(header));
        let mut row = |name: String, counted: &Option<Vec<f64>>| {
            let Some(counted) = counted else { return };
            let both = costs.iter().zip(counted);
            table.row(name, both.map(|(cost, count)| figure(*count, cost.digits)));
        };
        for measured in &self.at_once {
            let callers = measured.crowd.callers;
            let write = self.words.write;
            row(format!("{write}, {callers} callers"), &measured.per_write);
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
            "ADD of a chain; medians in ms".to_owned(),
            "local pool".to_owned(),
            "blocks".to_owned(),
            "× local".to_owned(),
            format!("{} stopped", self.words.stopped),
            "× local then".to_owned(),
        ]);
        for measured in &self.blocks {
            let name = match measured.form {
                Form::OneFile => "in one file, as installed",
                Form::Separate => "separate executables",
            };
            let (local, blocks) = (measured.local.median(), measured.blocks.median());
            let (then, without) = (
                measured.local_then.median(),
                measured.without_engine.median(),
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

    /// All figures, for programs.
    pub(crate) fn to_json(&self) -> Value {
        let cost = |counted: &Option<Vec<f64>>| {
            let both = self.words.costs.iter().zip(counted.as_ref()?);
            let named = both.map(|(cost, count)| (cost.name.to_owned(), json!(count)));
            Some(Value::Object(named.collect()))
        };
        let at_once = self.at_once.iter().map(|measured| {
            json!({
                "callers": measured.crowd.callers, "calls": measured.crowd.calls,
                "writes": measured.writes.median(), "adds": measured.adds.median(),
                "ratio": measured.adds.median() / measured.writes.median(), "bound": measured.crowd.bound,
                "first_ratio": measured.adds.first() / measured.writes.first(),
                "per_write": cost(&measured.per_write), "per_add": cost(&measured.per_add),
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
                "without_engine": or_null(&measured.without_engine),
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
                "write": self.one_at_a_time.write.median(),
                "levels": levels.collect::<Vec<_>>(),
            },
            "blocks": blocks.collect::<Vec<_>>(),
        })
    }
}

/// The explanation before the figures.
const EXPLANATION: &str = "\
The cluster: {whose}. Written by `cargo xtask bench {command} --out docs`. {more}
- **A bare {write}** is the peer: one object as large as an address. A {write} and an ADD each open a connection of their own, with
  TLS, and use the node's token; so both have the same number of connections.
- **All at once**: each node has made one call before. The callers are threads of one process that call the plugin as a library,
  since a thousand processes would measure the start of processes. All are ready before the first one starts; the time is that of
  the last one's end. The pool has exactly as many addresses as there are calls, so the last callers look for the last addresses.
  In the first of three rounds, no node has seen yet which addresses others have.
- **Executables**: what the processes add. VERSION starts as many processes and opens no connection.
- **Blocks**: ADD of the whole chain, as executables, beside the same chain with a local pool, in turn; then both once more while
  {stopped} is stopped with SIGSTOP.
- The engine, the callers and whatever else the machine does share its processors: compare ratios, not times.
";

impl Figures {
    /// A page for the documentation; `more` is about this engine.
    pub(crate) fn page(&self, more: &str) -> String {
        let words = self.words;
        let explanation = EXPLANATION
            .replace("{whose}", &self.whose)
            .replace("{more}", more)
            .replace("{command}", words.command)
            .replace("{write}", words.write)
            .replace("{stopped}", words.stopped);
        let tables: Vec<String> = self.tables().iter().map(Table::to_string).collect();
        let tables = tables.join("\n");
        format!("# Figures of {}\n\n{explanation}\n{tables}", words.engine)
    }
}
