//! What has been measured, as figures: ratios, a table, and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::contender::{Contender, Kind};
use super::{calls, throughput};

/// All of it.
pub(crate) struct Figures {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rounds: usize,
    pub(crate) calls: Vec<calls::Measured>,
    pub(crate) throughput: Vec<throughput::Measured>,
    /// For each contender, in KiB.
    pub(crate) peak: Vec<u64>,
    /// For each contender, in bytes.
    pub(crate) size: Vec<u64>,
}

impl Figures {
    /// The median of a call, in milliseconds.
    pub(crate) fn median(&self, kind: Kind, command: &str, reserved: u32) -> f64 {
        self.call(kind, command, reserved)
            .map_or(f64::NAN, |it| it.times.median())
    }

    fn call(&self, kind: Kind, command: &str, reserved: u32) -> Option<&calls::Measured> {
        self.calls.iter().find(|it| {
            self.contenders[it.of].kind == kind && it.command == command && it.reserved == reserved
        })
    }

    /// ADDs a second.
    pub(crate) fn rate(&self, kind: Kind, callers: usize) -> f64 {
        self.throughput
            .iter()
            .find(|it| self.contenders[it.of].kind == kind && it.callers == callers)
            .map_or(f64::NAN, |it| it.rate)
    }

    fn of(&self, kind: Kind, all: &[u64]) -> u64 {
        let at = self.contenders.iter().position(|it| it.kind == kind);
        at.map_or(0, |at| all[at])
    }

    /// What was asked for, and what came out: a line each.
    pub(crate) fn goals(&self) -> Vec<Goal> {
        let ratio = |kind, reserved| {
            self.median(kind, "ADD", reserved) / self.median(Kind::Peer, "ADD", reserved)
        };
        let at_most = |what: &str, goal, value| Goal {
            what: what.to_owned(),
            goal: format!("≤ {goal}"),
            value: format!("{value:.2}"),
            met: value <= goal,
        };
        let rate = self.rate(Kind::OneFile, 16) / self.rate(Kind::Peer, 16);
        let peak = self.of(Kind::OneFile, &self.peak) as f64 / 1024.0;
        vec![
            at_most(
                "ADD, one file, none reserved, × peer",
                0.4,
                ratio(Kind::OneFile, 0),
            ),
            at_most(
                "ADD, one file, 250 reserved, × peer",
                0.2,
                ratio(Kind::OneFile, 250),
            ),
            at_most(
                "ADD, separate, none reserved, × peer",
                0.9,
                ratio(Kind::Separate, 0),
            ),
            at_most(
                "ADD, separate, 250 reserved, × peer",
                0.45,
                ratio(Kind::Separate, 250),
            ),
            Goal {
                what: "ADDs a second by 16 callers, one file, × peer".to_owned(),
                goal: "≥ 3".to_owned(),
                value: format!("{rate:.2}"),
                met: rate >= 3.0,
            },
            Goal {
                what: "peak memory of an ADD, one file, in MiB".to_owned(),
                goal: "< 4".to_owned(),
                value: format!("{peak:.2}"),
                met: peak < 4.0,
            },
        ]
    }

    /// The tables, in Markdown.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: &[String]| {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        };
        let names = || self.contenders.iter().map(|it| it.name.clone());
        let header = |first: &str, each: &dyn Fn(String) -> Vec<String>| -> Vec<String> {
            [first.to_owned()]
                .into_iter()
                .chain(names().flat_map(each))
                .collect()
        };
        let rule = |columns: usize| -> Vec<String> {
            [":--".to_owned()]
                .into_iter()
                .chain((1..columns).map(|_| "--:".to_owned()))
                .collect()
        };
        let calls = header("median (p99), ms", &|name| vec![name, "× peer".to_owned()]);
        line(&calls);
        line(&rule(calls.len()));
        for reserved in calls::RESERVED {
            for command in calls::COMMANDS {
                let peer = self.median(Kind::Peer, command, reserved);
                let cells = self.contenders.iter().flat_map(|contender| {
                    let times = self.call(contender.kind, command, reserved);
                    let [median, p99] =
                        times.map_or([f64::NAN; 2], |it| [50, 99].map(|p| it.times.percentile(p)));
                    [
                        format!("{median:.2} ({p99:.2})"),
                        format!("{:.2}", median / peer),
                    ]
                });
                let first = format!("{command}, {reserved} reserved");
                line(&[first].into_iter().chain(cells).collect::<Vec<_>>());
            }
        }
        line(&[]);
        let rates = header("ADDs a second", &|name| vec![name, "× peer".to_owned()]);
        line(&rates);
        line(&rule(rates.len()));
        for callers in throughput::CALLERS {
            let peer = self.rate(Kind::Peer, callers);
            let cells = self.contenders.iter().flat_map(|contender| {
                let rate = self.rate(contender.kind, callers);
                [format!("{rate:.0}"), format!("{:.2}", rate / peer)]
            });
            let first = format!("{callers} at a time");
            line(&[first].into_iter().chain(cells).collect::<Vec<_>>());
        }
        line(&[]);
        let sizes = header("", &|name| vec![name]);
        line(&sizes);
        line(&rule(sizes.len()));
        for (what, unit, all) in [
            ("peak memory, MiB", 1024.0, &self.peak),
            ("size on disk, MiB", 1024.0 * 1024.0, &self.size),
        ] {
            let cells = all
                .iter()
                .map(|value| format!("{:.1}", *value as f64 / unit));
            line(
                &[what.to_owned()]
                    .into_iter()
                    .chain(cells)
                    .collect::<Vec<_>>(),
            );
        }
        line(&[]);
        line(&["goal", "asked for", "measured", ""].map(str::to_owned));
        line(&[":--", "--:", "--:", ":--"].map(str::to_owned));
        for goal in self.goals() {
            let met = if goal.met { "met" } else { "not met" };
            line(&[goal.what, goal.goal, goal.value, met.to_owned()]);
        }
        text.replace("|  |\n", "\n")
    }

    /// All figures, for programs.
    pub(crate) fn to_json(&self) -> Value {
        let name = |of: usize| self.contenders[of].kind.key();
        let calls = self.calls.iter().map(|it| {
            let peer = self.median(Kind::Peer, it.command, it.reserved);
            json!({
                "contender": name(it.of),
                "command": it.command,
                "reserved": it.reserved,
                "median_ms": it.times.median(),
                "p99_ms": it.times.percentile(99),
                "times_peer": it.times.median() / peer,
            })
        });
        let throughput = self.throughput.iter().map(|it| {
            json!({
                "contender": name(it.of),
                "callers": it.callers,
                "adds_per_second": it.rate,
                "times_peer": it.rate / self.rate(Kind::Peer, it.callers),
            })
        });
        let contenders = self.contenders.iter().enumerate().map(|(of, it)| {
            json!({
                "key": it.kind.key(),
                "name": it.name,
                "peak_memory_kib": self.peak[of],
                "size_bytes": self.size[of],
            })
        });
        let goals = self
            .goals()
            .into_iter()
            .map(|it| json!({"what": it.what, "goal": it.goal, "value": it.value, "met": it.met}));
        json!({
            "rounds": self.rounds,
            "containers_of_throughput": throughput::CONTAINERS,
            "contenders": contenders.collect::<Vec<_>>(),
            "calls": calls.collect::<Vec<_>>(),
            "throughput": throughput.collect::<Vec<_>>(),
            "goals": goals.collect::<Vec<_>>(),
        })
    }
}

/// Something that was asked for.
pub(crate) struct Goal {
    pub(crate) what: String,
    goal: String,
    value: String,
    met: bool,
}
